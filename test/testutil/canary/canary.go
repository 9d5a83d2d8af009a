// Package canary fills objects, so that a test can see which of their fields leave the daemon.
package canary

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxDepth is more than the depth of any type that does not contain itself.
const maxDepth = 24

// leaves are the structs that are values, and not nodes.
var leaves = map[reflect.Type]func(n int64) any{
	reflect.TypeFor[resource.Quantity](): func(n int64) any { return *resource.NewQuantity(n, resource.DecimalSI) },
	reflect.TypeFor[metav1.Time]():       func(n int64) any { return metav1.Unix(n, 0) },
	reflect.TypeFor[metav1.MicroTime]():  func(n int64) any { return metav1.NewMicroTime(time.Unix(n, 0)) },
	reflect.TypeFor[time.Time]():         func(n int64) any { return time.Unix(n, 0).UTC() },
}

// port is a number or a text.
var port = reflect.TypeFor[intstr.IntOrString]()

// Fill sets each field of what v points to. A text has its path and the version in it. Each list and
// map has one element. Two versions differ in each field that is not boolean.
func Fill(v any, version int64) { filler(version).fill(reflect.ValueOf(v).Elem(), "", 0) }

// filler fills with a version.
type filler int64

func (n filler) fill(v reflect.Value, path string, depth int) {
	if leaf, is := leaves[v.Type()]; is {
		v.Set(reflect.ValueOf(leaf(int64(n))))
		return
	}
	if v.Type() == port {
		v.Set(reflect.ValueOf(intstr.FromString(n.text(path))))
		return
	}
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		n.fill(v.Elem(), path, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				n.fill(v.Field(i), below(path, f), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"` + n.text(path) + `":{}}`)) // FieldsV1 is JSON
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		n.fill(v.Index(0), path+"[]", depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("key")
		n.fill(value, path+"{}", depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(n.text(path))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("canary: can't fill " + path + " of the type " + v.Type().String())
	}
}

// text is the text of a path. What follows the question mark is a query.
func (n filler) text(path string) string { return fmt.Sprintf("canary:%s;%d?query", path, n) }

// below returns the path of a field.
func below(path string, f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "" && f.Anonymous:
		return path
	case name == "" || name == "-":
		name = f.Name
	}
	return strings.TrimPrefix(path+"."+name, ".")
}

// inText is the start of a text. The longest path has about 200 bytes.
var inText = regexp.MustCompile(`^canary:([\w.\[\]{}]*)(?:;\d*(\?query)?|(…)?)`)

// Texts returns the paths of the texts of filled objects that are in an answer of any format.
func Texts(answer string) []string {
	paths := make(map[string]struct{})
	for at := strings.Index(answer, "canary:"); at >= 0; at = strings.Index(answer, "canary:") {
		answer = answer[at:]
		found := inText.FindStringSubmatch(answer[:min(len(answer), 512)])
		paths[describe(found[1]+found[3], found[2] != "")] = struct{}{}
		answer = answer[len(found[0]):]
	}
	return slices.Sorted(maps.Keys(paths))
}

// Beyond returns the paths of texts that are not allowed. A text may be cut.
func Beyond(texts, allowed []string) []string {
	known := make(map[string]struct{}, len(allowed))
	for _, a := range allowed {
		known[a] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		_, exact := known[text]
		_, whole := known[strings.TrimSuffix(text, withoutQuery)]
		start, cut := strings.CutSuffix(strings.TrimSuffix(text, withoutQuery), "…")
		return exact || whole || cut && slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(a, start) })
	})
}

// withoutQuery follows the path of a text that has lost its query.
const withoutQuery = " (without query)"

func describe(path string, query bool) string {
	if !query {
		path += withoutQuery
	}
	return path
}

// Fields returns the paths of all fields of v that are set. A path is marked if its text has no query
// any more.
func Fields(v any) []string {
	var paths []string
	fields(reflect.ValueOf(v), "", &paths)
	slices.Sort(paths)
	return slices.Compact(paths)
}

func fields(v reflect.Value, path string, paths *[]string) {
	if !v.IsValid() || v.IsZero() {
		return
	}
	if _, leaf := leaves[v.Type()]; leaf || v.Type() == port {
		*paths = append(*paths, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		fields(v.Elem(), path, paths)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fields(v.Field(i), below(path, f), paths)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			*paths = append(*paths, path)
			return
		}
		for i := range v.Len() {
			fields(v.Index(i), path+"[]", paths)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			fields(v.MapIndex(key), path+"{}", paths)
		}
	case reflect.String:
		cut := strings.HasPrefix(v.String(), "canary:") && !strings.HasSuffix(v.String(), "?query")
		*paths = append(*paths, describe(path, !cut))
	default:
		*paths = append(*paths, path)
	}
}
