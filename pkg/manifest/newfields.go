package manifest

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/podconfigd/podconfigd/internal/jsonfields"
	"github.com/podconfigd/podconfigd/internal/yamlfault"
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
