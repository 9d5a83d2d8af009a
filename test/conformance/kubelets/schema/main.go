// Command schema prints the fields of every struct that the kubelet's hash of a pod goes over: the struct,
// the position, the name, the type and the kind of each field, in the order in which the structs are met.
package main

import (
	"fmt"
	"reflect"

	"k8s.io/kubernetes/pkg/apis/core"
)

func main() { show(reflect.TypeFor[core.Pod](), make(map[reflect.Type]bool)) }

func show(t reflect.Type, shown map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || shown[t] {
		return
	}
	shown[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		fmt.Printf("%s\t%d\t%s\t%s\t%s\n", t, i, f.Name, f.Type, kind(f.Type))
	}
	for i := range t.NumField() {
		show(t.Field(i).Type, shown)
	}
}

// kind returns the kind of a type and of its elements.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return t.Kind().String() + " of " + t.Elem().Kind().String()
	}
	return t.Kind().String()
}
