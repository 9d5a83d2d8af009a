// Package jsonfields has the fields of structs by their names in JSON.
//
//	value.FieldByIndex(jsonfields.Of(value.Type())["metadata"].Index)
package jsonfields

import (
	"reflect"
	"strings"
	"sync"
)

// Field is a field of a struct.
type Field struct {
	// Index is for FieldByIndex: the field may be in an inlined struct.
	Index []int
	Type  reflect.Type
	// Omits means that JSON lacks the field if it is empty.
	Omits bool
}

// byType has the results of Of. Reflection for each object of a manifest takes longer than decoding it.
var byType sync.Map

// Of returns the fields of a struct, with those of inlined structs; nil for other types. The caller must not change
// the result.
func Of(typ reflect.Type) map[string]Field {
	if typ.Kind() != reflect.Struct {
		return nil
	}
	if known, ok := byType.Load(typ); ok {
		fields, _ := known.(map[string]Field)
		return fields
	}
	found := make(map[string]Field)
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch name, options := Name(f); {
		case name == "" && f.Anonymous:
			for name, inner := range Of(f.Type) {
				found[name] = Field{append([]int{i}, inner.Index...), inner.Type, inner.Omits}
			}
		case name != "" && name != "-" && f.IsExported():
			found[name] = Field{[]int{i}, f.Type, strings.Contains(options, "omit")}
		}
	}
	byType.Store(typ, found)
	return found
}

// Name returns the name of a field in JSON, and the options of its tag. The name is empty for an inlined struct.
func Name(f reflect.StructField) (name, options string) {
	name, options, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, options
}
