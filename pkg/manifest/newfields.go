package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podconfigd/podconfigd/internal/jsonfields"
	"github.com/podconfigd/podconfigd/internal/yamlfault"
	"github.com/podconfigd/podconfigd/pkg/manifest/internal/plainyaml"
)

// dropNewFields removes the fields that the kubelet of the minor does not know, as its decoder does, and
// adds a warning for each.
func (m Minor) dropNewFields(t *text, pod *api.Pod, found *yamlfault.Findings) error {
	if m == Base {
		return nil
	}
	var external v1.Pod // has the names of JSON, and shares all but the structs
	if err := corev1.Convert_core_Pod_To_v1_Pod(pod, &external, nil); err != nil {
		return err
	}
	dropped := false
	newFieldsOf(m)(reflect.ValueOf(&external).Elem(), "", func(path string) {
		dropped = true
		found.Add(func() Fault { return t.At(path, "kubelet %s does not know the field and ignores it", m) })
	})
	if !dropped {
		return nil
	}
	return corev1.Convert_v1_Pod_To_core_Pod(&external, pod, nil)
}

// dropper clears fields of a value and reports the path of each.
type dropper func(value reflect.Value, path string, report func(path string))

// droppers are made when they are needed.
var droppers [Base - Oldest + 1]struct {
	sync.Once
	dropper
}

// newFieldsOf returns the dropper of the fields of a pod that a known minor does not have.
func newFieldsOf(m Minor) dropper {
	at := &droppers[m-Oldest]
	at.Do(func() {
		maker := &dropperMaker{known: dumperOf(m).structs, made: make(map[reflect.Type]dropper)}
		at.dropper = maker.make(reflect.TypeFor[v1.Pod]())
	})
	return at.dropper
}

// dropperMaker makes droppers of types. A type without new fields has none.
type dropperMaker struct {
	known map[string][]schemaField
	made  map[reflect.Type]dropper
}

func (d *dropperMaker) make(t reflect.Type) dropper {
	switch t.Kind() {
	case reflect.Pointer:
		if elem := d.make(t.Elem()); elem != nil {
			return func(value reflect.Value, path string, report func(string)) {
				if !value.IsNil() {
					elem(value.Elem(), path, report)
				}
			}
		}
	case reflect.Slice:
		if elem := d.make(t.Elem()); elem != nil {
			return func(value reflect.Value, path string, report func(string)) {
				for i := range value.Len() {
					elem(value.Index(i), path+"["+strconv.Itoa(i)+"]", report)
				}
			}
		}
	case reflect.Struct:
		if _, known := d.made[t]; !known {
			d.made[t] = nil // no type of a pod has itself as a part
			d.made[t] = d.makeStruct(t)
		}
		return d.made[t]
	}
	return nil
}

func (d *dropperMaker) makeStruct(t reflect.Type) dropper {
	known, ok := d.known[internalName(t)]
	if !ok {
		return nil
	}
	type part struct {
		index int
		name  string
		drop  dropper // nil to clear it
	}
	var parts []part
	for i := range t.NumField() {
		field := t.Field(i)
		name, _ := jsonfields.Name(field)
		switch elem := d.make(field.Type); {
		case !field.IsExported():
		case !isKnown(known, t, field.Name):
			parts = append(parts, part{index: i, name: name})
		case elem != nil:
			parts = append(parts, part{index: i, name: name, drop: elem})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return func(value reflect.Value, path string, report func(string)) {
		for _, p := range parts {
			field, inner := value.Field(p.index), path
			if p.name != "" {
				inner = strings.TrimPrefix(path+"."+p.name, ".")
			}
			switch {
			case p.drop != nil:
				p.drop(field, inner, report)
			case !field.IsZero():
				field.SetZero()
				report(inner)
			}
		}
	}
}

// internalName returns the name of the internal type, which the schemas use.
func internalName(t reflect.Type) string {
	if t.PkgPath() == reflect.TypeFor[v1.Pod]().PkgPath() {
		return "core." + t.Name()
	}
	return t.String()
}

// isKnown reports whether the kubelet knows the field of the API. Its internal types may have it elsewhere.
func isKnown(known []schemaField, t reflect.Type, name string) bool {
	for _, field := range known {
		if field.name == name {
			return true
		}
	}
	switch t {
	case reflect.TypeFor[v1.PodSpec]():
		switch name {
		case "HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers", "DeprecatedServiceAccount":
			return true
		}
	case reflect.TypeFor[v1.PodStatus]():
		return name == "PodIP"
	}
	return false
}

var podType = reflect.TypeFor[v1.Pod]()

// text is the text of a manifest. It returns the line of a field.
type text struct{ *yamlfault.Text }

func newText(file string, data []byte) *text { return &text{yamlfault.New(file, data)} }

// item returns the text of an item of a list.
func (t *text) item(i int) *text { return &text{t.Item(i)} }

// toJSON converts the manifest to JSON, as the kubelet does, and returns its duplicate
// keys, and the keys and values that unexpectedly become booleans.
//
// The strict conversion gives the same JSON as the kubelet's or fails. So it is tried
// first. It costs a lookup for each key, and a second conversion would cost as much as
// the first. Its error has a text for each duplicate, so it is not used for a large
// manifest.
func (t *text) toJSON() (data []byte, duplicates yamlfault.Findings, err error) {
	isJSON := utilyaml.IsJSONBuffer(t.Data) // the decoder finds its duplicates
	if !isJSON {
		if err := checkYAML(t.Data); err != nil {
			return nil, yamlfault.Findings{}, err
		}
	}
	if err := t.checkAliases(); err != nil {
		return nil, yamlfault.Findings{}, err
	}
	large := len(t.Data) > yamlfault.MaxLength
	if !isJSON && !large {
		if data, plain := plainyaml.ToJSON(t.Data); plain { // it has no duplicate, and no boolean of YAML 1.1
			return data, yamlfault.Findings{}, nil
		}
		if data, err = yaml.YAMLToJSONStrict(t.Data); err == nil {
			return data, t.Booleans(), nil
		}
	}
	data, err = utilyaml.ToJSON(t.Data)
	switch {
	case err != nil:
		return nil, yamlfault.Findings{}, t.refuse(ReasonNotYAML, t.NotYAML(err))
	case isJSON || large:
		return data, yamlfault.Findings{}, nil
	}
	found := t.Duplicates("; only the last value counts")
	found.AddAll(t.Booleans())
	return data, found, nil
}

// strictFaults returns the faults for the errors of the strict decoder: unknown fields
// and, in JSON, duplicate fields.
func (t *text) strictFaults(errs []error, json []byte) yamlfault.Findings {
	found := t.Unknown(json, podType, ", ignored")
	for _, err := range errs {
		strict, ok := err.(interface{ FieldPath() string })
		switch {
		case !ok:
			found.Add(func() Fault { return Fault{Message: err.Error()} })
		case !strings.HasPrefix(err.Error(), "unknown field"):
			found.Add(func() Fault { return t.At(strict.FieldPath(), "duplicate key") })
		}
	}
	return found
}

// undecodable returns the faults of JSON that the decoder rejects.
func (t *text) undecodable(err error, data []byte) *Error {
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(any))); ok && utilyaml.IsJSONBuffer(t.Data) {
		line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		return t.refuse(ReasonNotYAML, Fault{Line: line, Message: "starts with {, but is not valid JSON: " + syntax.Error() + "; if it is YAML, begin it with ---"})
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
