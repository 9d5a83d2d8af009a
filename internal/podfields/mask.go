package podfields

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/internal/jsonfields"
	"github.com/podconfigd/podconfigd/internal/similar"
)

// Mask is a set of fields of a pod. It is immutable.
type Mask struct {
	root maskNode
	key  MaskKey
}

// MaskKey identifies the fields of a mask.
type MaskKey struct{ handle unique.Handle[string] }

// Key returns the key; the zero value for nil, which stands for all fields.
func (m *Mask) Key() MaskKey {
	if m == nil {
		return MaskKey{}
	}
	return m.key
}

// maskNode selects in a value. A node without children selects all of it.
type maskNode struct {
	// fields are selected fields of a struct, keys selected keys of a map.
	fields []maskField
	keys   []string
}

// maskField is a field of a struct. The fields of an inlined struct belong to the struct around it.
type maskField struct {
	index []int
	name  string
	// always is true if the JSON of Kubernetes always has the field.
	always bool
	node   *maskNode
}

func (n *maskNode) whole() bool { return len(n.fields)+len(n.keys) == 0 }

// maxPaths is the maximum number of paths.
const maxPaths = 256

// identity are the fields that each mask has.
var identity = []string{"metadata.name", "metadata.namespace", "metadata.uid"}

// ParseMask returns the mask of paths: names of fields in JSON, separated by dots. A path goes into the
// elements of lists. ['key'] selects a key of a map. The fields metadata.name, metadata.namespace
// and metadata.uid are always added. Without paths, ParseMask returns nil.
func ParseMask(paths []string) (*Mask, error) {
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // nil is all fields
	}
	if len(paths) > maxPaths {
		return nil, fmt.Errorf("%d fields are too many: expected at most %d", len(paths), maxPaths)
	}
	paths = slices.Concat(paths, identity)
	slices.Sort(paths)
	m := new(Mask)
	var kept []string
	for _, path := range slices.Compact(paths) {
		steps, err := split(path)
		if err != nil {
			return nil, err
		}
		if covered(kept, path) {
			continue // a shorter path has it
		}
		if err := m.root.addPath(podType, path, "", steps); err != nil {
			return nil, err
		}
		kept = append(kept, path)
	}
	m.key = MaskKey{unique.Make(strings.Join(kept, ","))}
	return m, nil
}

var podType = reflect.TypeFor[v1.Pod]()

func covered(kept []string, path string) bool {
	return slices.ContainsFunc(kept, func(shorter string) bool {
		rest, is := strings.CutPrefix(path, shorter)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// step is the name of a field, or a key of a map.
type step struct {
	name string
	key  bool
}

func split(path string) (steps []step, err error) {
	bad := func() ([]step, error) {
		return nil, fmt.Errorf("%q is not a field: expected names separated by dots, as in spec.containers.name, or metadata.labels['app']", path)
	}
	for rest := path; ; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return bad()
		}
		steps = append(steps, step{name: rest[:end]})
		rest = rest[end:]
		if inner, is := strings.CutPrefix(rest, "['"); is {
			key, after, closed := strings.Cut(inner, "']")
			if !closed || key == "" {
				return bad()
			}
			steps, rest = append(steps, step{name: key, key: true}), after
		}
		if rest == "" {
			return steps, nil
		}
		if rest[0] != '.' {
			return bad()
		}
		rest = rest[1:]
	}
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// addPath adds a path. before is the part of the path that leads to the type.
func (n *maskNode) addPath(typ reflect.Type, path, before string, steps []step) error {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if len(steps) == 0 {
		n.fields, n.keys = nil, nil
		return nil
	}
	s, opaque := steps[0], typ.Implements(marshaler) || reflect.PointerTo(typ).Implements(marshaler)
	switch {
	case s.key && typ.Kind() == reflect.Map:
		if len(steps) > 1 {
			return fmt.Errorf("%q: a value of %s has no fields", path, before)
		}
		n.keys = append(n.keys, s.name)
		return nil
	case s.key:
		return fmt.Errorf("%q: %s is not a map", path, before)
	case typ.Kind() == reflect.Map:
		return fmt.Errorf("%q: %s is a map: select a key as in %s['%s']", path, before, before, s.name)
	case typ.Kind() != reflect.Struct || opaque:
		return fmt.Errorf("%q: %s has no fields", path, before)
	}
	known := jsonfields.Of(typ)
	found, ok := known[s.name]
	if !ok {
		err := fmt.Errorf("%q: %s has no field %q", path, nameOf(before), s.name)
		if nearest := similar.To(s.name, maps.Keys(known)); nearest != "" {
			err = fmt.Errorf("%w: did you mean %q?", err, nearest)
		}
		return err
	}
	i := slices.IndexFunc(n.fields, func(f maskField) bool { return f.name == s.name })
	if i < 0 {
		i = len(n.fields)
		n.fields = append(n.fields, maskField{index: found.Index, name: s.name, always: !found.Omits, node: new(maskNode)})
	}
	return n.fields[i].node.addPath(found.Type, path, join(before, s.name), steps[1:])
}

func nameOf(before string) string {
	if before == "" {
		return "a pod"
	}
	return before
}

func join(before, name string) string {
	if before == "" {
		return name
	}
	return before + "." + name
}

// Apply returns a pod with only the fields of the mask. It shares their values with the pod.
func (m *Mask) Apply(pod *v1.Pod) *v1.Pod {
	out := new(v1.Pod)
	m.root.copy(reflect.ValueOf(out).Elem(), reflect.ValueOf(pod).Elem())
	return out
}

func (n *maskNode) copy(to, from reflect.Value) {
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
func (f *maskField) append(data []byte, of reflect.Value, first bool) ([]byte, error) {
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

func (n *maskNode) append(data []byte, value reflect.Value) ([]byte, error) {
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
