package manifest

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// podKind finds the kind of a pod, also in a YAML document after the first.
var podKind = regexp.MustCompile(`(?m)^["']?kind["']?[ \t]*:[ \t]*["']?Pod["']?[ \t\r]*(?:#.*)?$`)

// objectKey finds a key that Kubernetes objects begin with.
var objectKey = regexp.MustCompile(`(?m)(?:^|[{,])[ \t]*["']?(?:apiVersion|kind)["']?[ \t]*:`)

// foreign reports whether a refused text is not meant as a pod. JSON is the text as JSON; nil if it is neither YAML nor JSON.
func (t *text) foreign(refused *Error, data []byte) bool {
	switch {
	case refused.Reason == ReasonEmpty:
		return true
	case refused.Reason == ReasonNotYAML, refused.Reason == ReasonTooLarge:
		return !hasObjectKey(t.Data)
	case refused.Reason != ReasonNotAPod:
		return false
	}
	if podKind.Match(t.Data) {
		return false // the pod is in a document that a kubelet does not read
	}
	var object map[string]any
	if json.Unmarshal(data, &object) != nil {
		return true
	}
	switch kind, _ := object["kind"].(string); {
	case strings.EqualFold(kind, "Pod"), kind == "PodList", kind == "List":
		return false
	case kind == "":
		spec, _ := object["spec"].(map[string]any)
		return spec["containers"] == nil
	}
	return true
}

// hasObjectKey reports whether a text has a key that Kubernetes objects begin with.
func hasObjectKey(data []byte) bool {
	return objectKey.Match(bytes.ReplaceAll(data, []byte{0}, nil)) // UTF-16 has them between the letters
}
