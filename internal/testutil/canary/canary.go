// Package canary fills objects, so that a test can see which of their fields leave the daemon.
package canary

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxDepth is more than any object nests that does not nest itself.
const maxDepth = 24

// leaves are the values of structs that are no nodes.
var leaves = map[reflect.Type]any{
	reflect.TypeFor[resource.Quantity](): resource.MustParse("7"),
	reflect.TypeFor[metav1.Time]():       metav1.Unix(7, 0),
	reflect.TypeFor[metav1.MicroTime]():  metav1.NewMicroTime(time.Unix(7, 0)),
	reflect.TypeFor[time.Time]():         time.Unix(7, 0).UTC(),
}

// Fill sets each field of what v points to. A text has its path in it. Each list and map has one
// element.
func Fill(v any) { fill(reflect.ValueOf(v).Elem(), "", 0) }

func fill(v reflect.Value, path string, depth int) {
	if leaf, is := leaves[v.Type()]; is {
		v.Set(reflect.ValueOf(leaf))
		return
	}
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), below(path, f), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"` + text(path) + `":{}}`)) // FieldsV1 is JSON
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path+"[]", depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("key")
		fill(value, path+"{}", depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(text(path))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("canary: can't fill " + path + " of the type " + v.Type().String())
	}
}

// text is the text of a path. A part of it after a question mark is a query.
func text(path string) string { return "canary:" + path + ";?query" }

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

var inText = regexp.MustCompile(`canary:([^;]*);(\?query)?`)

// Texts returns the paths of the texts of filled objects that are in an answer of any format.
func Texts(answer string) []string {
	var paths []string
	for _, found := range inText.FindAllStringSubmatch(answer, -1) {
		paths = append(paths, describe(found[1], found[2] != ""))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func describe(path string, query bool) string {
	if !query {
		path += " (without query)"
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
	if _, leaf := leaves[v.Type()]; leaf {
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
