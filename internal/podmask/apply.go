package podmask

import (
	"encoding/json"
	"reflect"

	v1 "k8s.io/api/core/v1"
)

// Apply returns a pod with only the fields of the mask. It shares their values with the pod.
func (m *Mask) Apply(pod *v1.Pod) *v1.Pod {
	out := new(v1.Pod)
	m.root.copy(reflect.ValueOf(out).Elem(), reflect.ValueOf(pod).Elem())
	return out
}

func (n *node) copy(to, from reflect.Value) {
	if n.whole() {
		to.Set(from)
		return
	}
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			n.copy(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				n.copy(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		for _, key := range n.keys {
			k := reflect.ValueOf(key).Convert(from.Type().Key())
			if value := from.MapIndex(k); value.IsValid() {
				if to.IsNil() {
					to.Set(reflect.MakeMap(from.Type()))
				}
				to.SetMapIndex(k, value)
			}
		}
	case reflect.Struct:
		for i := range n.fields {
			f := &n.fields[i]
			f.node.copy(to.FieldByIndex(f.index), from.FieldByIndex(f.index))
		}
	}
}

// JSON returns the JSON of a pod from Apply, with apiVersion and kind. The JSON of v1.Pod has more
// fields than the mask: those that Kubernetes never leaves out, such as the readiness of a container
// status, which would be false.
func (m *Mask) JSON(pod *v1.Pod) ([]byte, error) {
	data := []byte(`{"kind":"Pod","apiVersion":"v1"`)
	value := reflect.ValueOf(pod).Elem()
	for i := range m.root.fields {
		f := &m.root.fields[i]
		if f.name == "kind" || f.name == "apiVersion" {
			continue
		}
		var err error
		if data, err = f.append(data, value, false); err != nil {
			return nil, err
		}
	}
	return append(data, '}'), nil
}

// append appends a field of a struct, if there is something in it.
func (f *field) append(data []byte, of reflect.Value, first bool) ([]byte, error) {
	value := of.FieldByIndex(f.index)
	if value.IsZero() && (!f.always || value.Kind() == reflect.Slice) {
		return data, nil
	}
	if !first {
		data = append(data, ',')
	}
	data = append(data, '"')
	data = append(data, f.name...)
	data = append(data, '"', ':')
	return f.node.append(data, value)
}

func (n *node) append(data []byte, value reflect.Value) ([]byte, error) {
	if n.whole() || value.Kind() == reflect.Map {
		encoded, err := json.Marshal(value.Interface())
		return append(data, encoded...), err
	}
	var err error
	switch value.Kind() {
	case reflect.Pointer:
		return n.append(data, value.Elem())
	case reflect.Slice:
		data = append(data, '[')
		for i := range value.Len() {
			if i > 0 {
				data = append(data, ',')
			}
			if data, err = n.append(data, value.Index(i)); err != nil {
				return nil, err
			}
		}
		return append(data, ']'), nil
	}
	data = append(data, '{')
	start := len(data)
	for i := range n.fields {
		if data, err = n.fields[i].append(data, value, len(data) == start); err != nil {
			return nil, err
		}
	}
	return append(data, '}'), nil
}
