package yamlfault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/podconfigd/podconfigd/internal/jsonfields"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/internal/similar"
)

// expectations are the values that types with their own decoder accept.
var expectations = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():     "quantity such as 500m or 64Mi",
	reflect.TypeFor[intstr.IntOrString]():    "integer or string",
	reflect.TypeFor[metav1.Time]():           "time such as 2026-01-31T23:59:59Z",
	reflect.TypeFor[metav1.MicroTime]():      "time such as 2026-01-31T23:59:59.000000Z",
	reflect.TypeFor[metav1.Duration]():       "duration such as 1m30s",
	reflect.TypeFor[v1.ResourceQuotaScope](): "string",

	reflect.TypeFor[logsapi.TimeOrMetaDuration](): "duration such as 5s",
	reflect.TypeFor[resource.QuantityValue]():     "quantity such as 64Ki",
}

// Mismatches returns a fault for each value in the JSON whose type does not fit its field in typ.
// The decoder's error has only one of them, without list indices.
func (t *Text) Mismatches(data []byte, typ reflect.Type) (found Findings) {
	value, err := Decode(data)
	if err != nil {
		return found
	}
	Walk(value, typ, "", func(path string, typ reflect.Type, value any) {
		if want := expected(value, typ); want != "" {
			found.Add(func() Fault {
				line, node := t.Locate(path)
				return Fault{line, path, fmt.Sprintf("expected %s, got %s", want, got(path, value, node, want))}
			})
		}
	})
	return found
}

// Decode returns the value of JSON. Its numbers are of type json.Number.
func Decode(data []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// Unknown returns a fault for each field in the JSON that typ does not have. The note is added to each message.
func (t *Text) Unknown(data []byte, typ reflect.Type, note string) (found Findings) {
	value, err := Decode(data)
	if err != nil {
		return found
	}
	Walk(value, typ, "", func(path string, typ reflect.Type, value any) {
		object, isObject := value.(map[string]any)
		if !isObject || typ.Kind() != reflect.Struct || decodesItself(typ) {
			return
		}
		known := jsonfields.Of(typ)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, ok := known[name]; ok {
				continue
			}
			found.Add(func() Fault {
				message := "unknown field" + note
				if nearest := similar.To(name, maps.Keys(known)); nearest != "" {
					message += "; did you mean " + nearest + "?"
				}
				return t.At(join(path, name), "%s", message)
			})
		}
	})
	return found
}

// Nulls returns a fault for each item of a list that is null.
func (t *Text) Nulls(data []byte, typ reflect.Type) (found Findings) {
	value, err := Decode(data)
	if err != nil {
		return found
	}
	Walk(value, typ, "", func(path string, _ reflect.Type, value any) {
		items, _ := value.([]any)
		for i, item := range items {
			if item == nil {
				found.Add(func() Fault { return t.At(fmt.Sprintf("%s[%d]", path, i), "no value") })
			}
		}
	})
	return found
}

// Walk visits the value, and all values below it whose type is known.
func Walk(value any, typ reflect.Type, path string, visit func(path string, typ reflect.Type, value any)) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	visit(path, typ, value)
	if decodesItself(typ) {
		return
	}
	switch value := value.(type) {
	case []any:
		if typ.Kind() == reflect.Slice {
			for i, item := range value {
				Walk(item, typ.Elem(), fmt.Sprintf("%s[%d]", path, i), visit)
			}
		}
	case map[string]any:
		fields := jsonfields.Of(typ)
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if typ.Kind() == reflect.Map {
				Walk(value[key], typ.Elem(), fmt.Sprintf("%s[%s]", path, key), visit)
			} else if field, ok := fields[key]; ok {
				Walk(value[key], field.Type, join(path, key), visit)
			}
		}
	}
}

// join returns the path of a field below another one.
func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

func decodesItself(typ reflect.Type) bool {
	return reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// expected returns what the type accepts, or an empty string if it accepts the value.
func expected(value any, typ reflect.Type) string {
	if value == nil {
		return "" // null is accepted
	}
	if decodesItself(typ) {
		data, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(data, reflect.New(typ).Interface())
		}
		if err == nil {
			return ""
		}
		if want := expectations[typ]; want != "" {
			return want
		}
		return "another value (" + err.Error() + ")"
	}
	switch typ.Kind() { //nolint:exhaustive // the API has no other kinds
	case reflect.String:
		return wanted[string](value, "string")
	case reflect.Bool:
		return wanted[bool](value, "boolean")
	case reflect.Struct, reflect.Map:
		return wanted[map[string]any](value, "object")
	case reflect.Slice:
		return wanted[[]any](value, "list")
	case reflect.Uint32:
		number, _ := value.(json.Number)
		if _, err := strconv.ParseUint(number.String(), 10, typ.Bits()); err != nil {
			return fmt.Sprintf("integer from 0 to %d", uint32(math.MaxUint32))
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		number, ok := value.(json.Number)
		if _, err := strconv.ParseInt(number.String(), 10, 64); !ok || err != nil {
			return "integer"
		}
		if _, err := strconv.ParseInt(number.String(), 10, typ.Bits()); err != nil {
			return fmt.Sprintf("integer of %d bits", typ.Bits())
		}
	}
	return ""
}

func wanted[T any](value any, name string) string {
	if _, ok := value.(T); ok {
		return ""
	}
	return name
}

// secret matches the paths of values that may be secret: values of environment variables and of
// HTTP headers.
var secret = regexp.MustCompile(`\]\.value$|[hH]eader(\[.*)?$`)

// got describes a value, in its spelling in the text if that is known. It does not
// repeat values that may be secret.
func got(path string, value any, node *yaml.Node, want string) string {
	written := fmt.Sprint(value)
	if node != nil && node.Kind == yaml.ScalarNode {
		written = node.Value
	}
	const maxLength = 64
	written = printable.Cut(written, maxLength)
	hint := ""
	if want == "string" {
		hint = ": put it in quotes"
	}
	if secret.MatchString(path) {
		written = ""
	}
	switch value.(type) {
	case string:
		if written != "" {
			written = strconv.Quote(written)
		}
		return strings.TrimSpace("string " + written)
	case json.Number:
		return strings.TrimSpace("number "+written) + hint
	case bool:
		return strings.TrimSpace("boolean "+written) + hint
	case []any:
		return "list"
	}
	return "object"
}

// yes and no are the words that are booleans in YAML 1.1, which the kubelet reads. In YAML 1.2, they
// are texts.
var (
	yes = []string{"y", "yes", "on"}
	no  = []string{"n", "no", "off"}
)

// boolean returns what YAML 1.1 makes of a word. Words are in lower case, in upper case, or have an
// upper-case first letter.
func boolean(word string) (value, ok bool) {
	lower := strings.ToLower(word)
	if word != lower && word[1:] != lower[1:] && word != strings.ToUpper(word) {
		return false, false
	}
	value = slices.Contains(yes, lower)
	return value, value || slices.Contains(no, lower)
}

// Booleans returns a fault for each key and each value that looks like a text, and becomes a boolean.
func (t *Text) Booleans() (found Findings) {
	report := func(n *yaml.Node, path, what string) {
		if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Value == "" || len(n.Value) > len("yes") {
			return
		}
		if value, ok := boolean(n.Value); ok {
			found.Add(func() Fault {
				return Fault{n.Line, path, fmt.Sprintf("YAML 1.1 reads the %s %s as %t: write %q for the text", what, n.Value, value, n.Value)}
			})
		}
	}
	t.each(func(n *yaml.Node, path string) {
		report(n, path, "value")
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			report(n.Content[i], join(path, nameOfKey(n.Content[i])), "key")
		}
	})
	return found
}
