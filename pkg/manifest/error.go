package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// Fault is a fault of a manifest, or a warning.
type Fault = yamlfault.Fault

// Reason is the reason for refusing a manifest, in one word.
type Reason string

// The reasons for which a manifest is refused.
const (
	// ReasonEmpty: the manifest is empty.
	ReasonEmpty Reason = "Empty"
	// ReasonTooLarge: the manifest has MaxLength bytes or more, or too many values or
	// items.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonNotYAML: the manifest is neither YAML nor JSON.
	ReasonNotYAML Reason = "NotYAML"
	// ReasonNotAPod: the manifest is not a v1 Pod.
	ReasonNotAPod Reason = "NotAPod"
	// ReasonInvalid: the pod breaks a rule of the API.
	ReasonInvalid Reason = "Invalid"
	// ReasonForbidden: the pod uses something that a static pod can't.
	ReasonForbidden Reason = "Forbidden"
)

// Error is the error for a refused manifest.
type Error struct {
	Reason Reason
	// Faults are the faults, at least one, in the order of their lines.
	Faults []Fault
	// Namespace and Name name the pod that a file describes, as the kubelet would name it. They are
	// empty if they can't be read in the manifest.
	Namespace, Name string
	// Foreign means that the text is not meant as a pod: it is empty, or no Kubernetes object, or one of another kind.
	Foreign bool
	// file is the name of the file without its directory; empty if the manifest is not
	// from a file.
	file string
}

// FirstLine returns the line of the first fault whose line is known, or 0.
func FirstLine(faults []Fault) int {
	for _, f := range faults {
		if f.Line > 0 {
			return f.Line
		}
	}
	return 0
}

// Error returns the faults of the manifest in one line.
func (e *Error) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.In(e.file)
	}
	return strings.Join(texts, "; ")
}

// refuse returns the error for a fault of the whole manifest.
func refuse(reason Reason, format string, args ...any) *Error {
	return newText("", nil).refuse(reason, Fault{Message: fmt.Sprintf(format, args...)})
}

// refuse returns the error for these faults.
func (t *text) refuse(reason Reason, faults ...Fault) *Error {
	return t.refuseAll(reason, yamlfault.FindingsOf(faults...))
}

func (t *text) refuseAll(reason Reason, found yamlfault.Findings) *Error {
	e := &Error{Reason: reason, Faults: found.Bounded()}
	if t.File != "" {
		e.file = filepath.Base(t.File)
	}
	return e
}

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
