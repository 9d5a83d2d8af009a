package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reason says in one word why a manifest was refused.
type Reason string

// The reasons for which a manifest is refused.
const (
	// ReasonEmpty: there is nothing in it.
	ReasonEmpty Reason = "Empty"
	// ReasonTooLarge: it has MaxLength bytes or more.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonNotYAML: it can't be read as YAML or JSON.
	ReasonNotYAML Reason = "NotYAML"
	// ReasonNotAPod: it is an object, but not a v1 Pod.
	ReasonNotAPod Reason = "NotAPod"
	// ReasonInvalid: the pod breaks a rule of the API.
	ReasonInvalid Reason = "Invalid"
	// ReasonForbidden: the pod uses what a static pod may not.
	ReasonForbidden Reason = "Forbidden"
)

// Error is the refusal of one manifest.
type Error struct {
	Reason Reason
	// Fields holds the faults one by one where validation found them, the first twenty at
	// most.
	Fields field.ErrorList
	err    error
}

// Error returns what is wrong with the manifest, in one line.
func (e *Error) Error() string { return strings.ReplaceAll(e.err.Error(), "\n", " ") }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

func refuse(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, err: fmt.Errorf(format, args...)}
}

// maxFaults is how many faults of a pod an Error names. A pod of 1 MiB can have half a
// million, and to join them takes time that grows with their square.
const maxFaults = 20

// invalid returns the refusal of a pod for those faults.
func invalid(faults field.ErrorList) *Error {
	named := slices.Clone(faults[:min(len(faults), maxFaults)])
	e := &Error{Reason: ReasonInvalid, Fields: named, err: named.ToAggregate()}
	if more := len(faults) - len(named); more > 0 {
		e.err = fmt.Errorf("%w and %d more", e.err, more)
	}
	return e
}

// decodeError says what kind of fault the decoder found.
func decodeError(err error, data []byte) *Error {
	switch {
	case !isObject(data):
		return refuse(ReasonNotAPod, "it is not an object, let alone a v1 Pod")
	case runtime.IsMissingVersion(err):
		return refuse(ReasonNotAPod, "apiVersion: Required value: it must be v1")
	case runtime.IsMissingKind(err):
		return refuse(ReasonNotAPod, "kind: Required value: it must be Pod")
	case runtime.IsNotRegisteredError(err):
		return notAPod(data)
	}
	return refuse(ReasonInvalid, "decoding it: %w", err)
}

func isObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
}

// notAPod names the kind of an object that decodes but is no pod.
func notAPod(data []byte) *Error {
	var t metav1.TypeMeta
	_ = json.Unmarshal(data, &t) // it decoded once already; at worst the kind stays unnamed
	hint := ""
	if t.Kind == "List" || t.Kind == "PodList" {
		hint = ": put each pod in a file of its own"
	}
	return refuse(ReasonNotAPod, "it is %s %s, not v1 Pod%s", t.APIVersion, t.Kind, hint)
}
