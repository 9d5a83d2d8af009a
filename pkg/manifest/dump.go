package manifest

import (
	"embed"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	api "k8s.io/kubernetes/pkg/apis/core"
)

// schemas has, for each minor, the fields of every struct that the kubelet's hash of a pod goes over, in
// their order. hack/podschema.sh makes the files from the module of each minor.
//
//go:embed schemas/*.txt
var schemas embed.FS

// dumper writes the pod as the kubelet of a minor does to hash it. That kubelet has other fields, in
// another order, partly in other structs. So the text follows the schema of the minor, and takes the
// values from the types of the base.
//
// kubelet: k8s.io/utils/dump ForHash, with the types of pkg/apis/core.
type dumper struct {
	// structs are the fields of each struct of the schema.
	structs map[string][]schemaField
	// printers has the printers of the types that were needed so far.
	printers map[reflect.Type]printer
}

// schemaField is a field of a struct, with its type and kind as Go prints them.
type schemaField struct{ name, typeName, kind string }

// dumping is what is known while a pod is printed.
type dumping struct {
	pod *api.Pod
	// depth counts the structs, slices and maps around the value.
	depth int
	// location is the depth at which the time zone of the process was printed; 0 if it was not. If the
	// same pointer comes again at a greater depth, the library prints a cycle, unless another pointer
	// at this depth or above came in between. All other pointers of a pod are different.
	location int
}

// pointer is called for each pointer.
func (s *dumping) pointer() {
	if s.location >= s.depth {
		s.location = 0
	}
}

// printer appends the text of a value that is a part of the pod.
type printer func(text []byte, value reflect.Value, s *dumping) []byte

// dumpers are made when they are needed.
var dumpers [Base - Oldest + 1]struct {
	sync.Once
	*dumper
}

// dumperOf returns the dumper of a known minor.
func dumperOf(m Minor) *dumper {
	at := &dumpers[m-Oldest]
	at.Do(func() { at.dumper = newDumper(m) })
	return at.dumper
}

func newDumper(m Minor) *dumper {
	data, err := schemas.ReadFile("schemas/" + m.String() + ".txt")
	if err != nil {
		panic(err) // it is embedded
	}
	d := &dumper{structs: make(map[string][]schemaField), printers: make(map[reflect.Type]printer)}
	for line := range strings.Lines(string(data)) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		d.structs[part[0]] = append(d.structs[part[0]], schemaField{name: part[2], typeName: part[3], kind: part[4]})
	}
	d.printer(reflect.TypeFor[api.Pod]())
	return d
}

// dump appends the text of the pod.
func (d *dumper) dump(text []byte, pod *api.Pod) []byte {
	value := reflect.ValueOf(pod).Elem()
	return d.printers[value.Type()](append(text, "(*core.Pod)"...), value, &dumping{pod: pod})
}

// texts are buffers for the texts of pods. Most are larger than the manifest. Growing a buffer to this size takes
// longer than printing. maxText is the capacity of the largest buffer that is kept.
var texts = sync.Pool{New: func() any { return new([]byte) }}

const maxText = 64 << 10

// hashed writes the text that add makes to the hash, and returns the sum.
func hashed(h hash.Hash, add func(text []byte) []byte) []byte {
	buffer, _ := texts.Get().(*[]byte) // the pool has nothing else
	text := add((*buffer)[:0])
	_, _ = h.Write(text) // it never fails
	if cap(text) <= maxText {
		*buffer = text
		texts.Put(buffer)
	}
	return h.Sum(nil)
}

// printer returns the printer of the values of a type.
func (d *dumper) printer(t reflect.Type) printer {
	switch t.Kind() {
	case reflect.Pointer:
		return printPointer(d.printer(t.Elem()))
	case reflect.Slice:
		return printSlice(d.printer(t.Elem()))
	case reflect.Map:
		return printMap(d.printer(t.Elem()))
	case reflect.Struct:
		return d.structPrinter(t)
	default:
		return printScalar
	}
}

// structPrinter returns the printer of a struct with the fields of the schema.
func (d *dumper) structPrinter(t reflect.Type) printer {
	if known := d.printers[t]; known != nil {
		return known
	}
	var fields []printer
	d.printers[t] = func(text []byte, value reflect.Value, s *dumping) []byte {
		text = append(text, '{')
		s.depth++
		for i, field := range fields {
			if i > 0 {
				text = append(text, ' ')
			}
			text = field(text, value, s)
		}
		s.depth--
		return append(text, '}')
	}
	for _, field := range d.structs[t.String()] {
		fields = append(fields, d.fieldPrinter(t, field))
	}
	return d.printers[t]
}

// podSpec is the type that has fields which were in PodSecurityContext before 1.37.
var podSpec = reflect.TypeFor[api.PodSpec]()

// fieldPrinter returns the printer of a field of a struct.
func (d *dumper) fieldPrinter(t reflect.Type, field schemaField) printer {
	head := field.name + ":(" + field.typeName + ")"
	if found, ok := ownField(t, field.name); ok {
		show := d.fieldValue(found.Type, field)
		return func(text []byte, value reflect.Value, s *dumping) []byte {
			return show(append(text, head...), value.Field(found.Index[0]), s)
		}
	}
	if found, ok := ownField(podSpec, field.name); ok && t == reflect.TypeFor[api.PodSecurityContext]() {
		show := d.fieldValue(found.Type, field)
		return func(text []byte, _ reflect.Value, s *dumping) []byte {
			return show(append(text, head...), reflect.ValueOf(&s.pod.Spec).Elem().Field(found.Index[0]), s)
		}
	}
	// The base no longer has the field, so no manifest that is decoded sets it.
	head += zeroText(field)
	pointer := strings.HasPrefix(field.kind, "ptr ")
	return func(text []byte, _ reflect.Value, s *dumping) []byte {
		if pointer {
			s.pointer()
		}
		return append(text, head...)
	}
}

// ownField returns a field of the struct itself, not of an embedded struct.
func ownField(t reflect.Type, name string) (reflect.StructField, bool) {
	found, ok := t.FieldByName(name)
	return found, ok && len(found.Index) == 1
}

// fieldValue returns the printer of the value of a field, which may be a pointer only in the base.
func (d *dumper) fieldValue(t reflect.Type, field schemaField) printer {
	if t.Kind() != reflect.Pointer || strings.HasPrefix(field.kind, "ptr ") {
		return d.printer(t)
	}
	show, zero := d.printer(t.Elem()), zeroText(field)
	return func(text []byte, value reflect.Value, s *dumping) []byte {
		if value.IsNil() {
			return append(text, zero...)
		}
		return show(text, value.Elem(), s)
	}
}

const nilText = "<nil>"

// zeroText returns the text of a field without a value.
func zeroText(field schemaField) string {
	kind, _, _ := strings.Cut(field.kind, " ")
	switch kind {
	case "ptr", "slice", "map":
		return nilText
	case "bool":
		return "false"
	case "string":
		return ""
	case "int", "int32", "int64", "uint8", "uint64":
		return "0"
	}
	panic(fmt.Sprintf("the schema has a field %s of the kind %s, which the types of %s lack", field.name, field.kind, Base))
}

func printPointer(show printer) printer {
	return func(text []byte, value reflect.Value, s *dumping) []byte {
		s.pointer()
		if value.IsNil() {
			return append(text, nilText...)
		}
		if value.Type() == location {
			if s.location > 0 && s.location < s.depth {
				return append(text, "<shown>"...)
			}
			s.location = s.depth
		}
		return show(text, value.Elem(), s)
	}
}

var location = reflect.TypeFor[*time.Location]()

func printSlice(show printer) printer {
	return func(text []byte, value reflect.Value, s *dumping) []byte {
		if value.IsNil() {
			return append(text, nilText...)
		}
		text = append(text, '[')
		s.depth++
		for i := range value.Len() {
			if i > 0 {
				text = append(text, ' ')
			}
			text = show(text, value.Index(i), s)
		}
		s.depth--
		return append(text, ']')
	}
}

// printMap prints a map whose keys are strings, in their order.
func printMap(show printer) printer {
	return func(text []byte, value reflect.Value, s *dumping) []byte {
		if value.IsNil() {
			return append(text, nilText...)
		}
		keys := value.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		text = append(text, "map["...)
		s.depth++
		for i, key := range keys {
			if i > 0 {
				text = append(text, ' ')
			}
			text = append(append(text, key.String()...), ':')
			text = show(text, value.MapIndex(key), s)
		}
		s.depth--
		return append(text, ']')
	}
}

func printScalar(text []byte, value reflect.Value, _ *dumping) []byte {
	switch {
	case value.Kind() == reflect.String:
		return append(text, value.String()...)
	case value.Kind() == reflect.Bool:
		return strconv.AppendBool(text, value.Bool())
	case value.CanInt():
		return strconv.AppendInt(text, value.Int(), 10)
	case value.CanUint():
		return strconv.AppendUint(text, value.Uint(), 10)
	}
	panic("a pod has a field of the type " + value.Type().String())
}
