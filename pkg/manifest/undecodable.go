package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// undecodable returns the faults of JSON that the decoder rejects.
func (t *text) undecodable(err error, data []byte) *Error {
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(any))); ok && utilyaml.IsJSONBuffer(t.Data) {
		line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		return t.refuse(ReasonNotYAML, Fault{Line: line, Message: "starts with {, but is not valid JSON: " + syntax.Error()})
	}
	if refused := t.notAPod(data); refused != nil {
		return refused
	}
	if found := t.Mismatches(data, podType); len(found.Faults()) > 0 {
		return t.refuseAll(ReasonInvalid, found)
	}
	return t.refuse(ReasonInvalid, Fault{Message: "can't be decoded: " + err.Error()})
}

// notAPod returns the error for JSON that is not a v1 Pod, or nil.
func (t *text) notAPod(data []byte) *Error {
	const expected = "expected apiVersion v1, kind Pod"
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return t.refuse(ReasonNotAPod, Fault{Message: "not a Kubernetes object: " + expected})
	}
	var faults []Fault
	for _, field := range []struct{ name, want string }{{"apiVersion", "v1"}, {"kind", "Pod"}} {
		if object[field.name] == nil || object[field.name] == "" {
			faults = append(faults, t.At(field.name, "Required value: expected %s", field.want))
		}
	}
	if len(faults) > 0 {
		return t.refuse(ReasonNotAPod, faults...)
	}
	version, isText := object["apiVersion"].(string)
	kind, isToo := object["kind"].(string)
	if !isText || !isToo || version == "v1" && kind == "Pod" {
		return nil
	}
	wrong := "kind"
	if kind == "Pod" {
		wrong = "apiVersion"
	}
	message := fmt.Sprintf("%s, got apiVersion %s, kind %s", expected, version, kind)
	switch {
	case strings.HasSuffix(kind, "List") && t.File == "":
		message += ": serve a v1 PodList"
	case strings.HasSuffix(kind, "List"):
		message += ": put each pod in its own file"
	}
	return t.refuse(ReasonNotAPod, t.At(wrong, "%s", message))
}
