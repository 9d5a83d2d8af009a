package server

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

var updateAnswers = flag.Bool("update-answers", false, "add new fields to testdata/answers.txt; they have to be declared by hand")

// declarations are what a field of an answer can be declared as in testdata/answers.txt.
var declarations = []string{
	"pod",      // a pod in the form of the view
	"view",     // a part of a pod, from the form of the view or shown from a certain view on
	"hidden",   // replaced or left out for a client that does not see everything
	"client",   // of the client itself
	"harmless", // never anything of a pod
}

// Each field of an answer that has a value is declared in testdata/answers.txt. One that is new fails this test, until
// somebody has looked at what it shows to whom.
func TestFieldsOfAnswers(t *testing.T) {
	var found []string
	for _, answer := range []any{v1alpha1.Update{}, v1alpha1.Status{}, v1alpha1.History{}, v1alpha1.Lookup{}, v1alpha1.RuntimePods{}, v1alpha1.Containers{}, v1alpha1.ContainerUpdate{}} {
		kind := reflect.TypeOf(answer)
		found = fieldsOfType(found, kind, kind.Name())
	}
	for _, name := range []string{"podconfigd.v1alpha1.PodConfig", "v1alpha1.Pods"} {
		descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatal(err)
		}
		service, ok := descriptor.(protoreflect.ServiceDescriptor)
		if !ok {
			t.Fatalf("%s is no service", name)
		}
		for i := range service.Methods().Len() {
			found = textsOfMessage(found, service.Methods().Get(i).Output(), nil)
		}
	}
	slices.Sort(found)
	compareAnswers(t, slices.Compact(found))
}

func compareAnswers(t *testing.T, found []string) {
	t.Helper()
	const file = "testdata/answers.txt"
	data, err := os.ReadFile(file)
	if err != nil && !*updateAnswers {
		t.Fatal(err)
	}
	declared := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		field, as, _ := strings.Cut(strings.TrimSpace(line), " ")
		declared[field] = as
	}
	var lines strings.Builder
	for _, field := range found {
		if !slices.Contains(declarations, declared[field]) {
			t.Errorf("%s can hold something of a pod: declare in %s which of %q it is, after you have looked", field, file, declarations)
		}
		lines.WriteString(strings.TrimSpace(field+" "+declared[field]) + "\n")
		delete(declared, field)
	}
	for field := range declared {
		t.Errorf("%s has %s, which no answer has", file, field)
	}
	if *updateAnswers {
		if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fieldsOfType appends the fields of a type that have a value: everything but the structs around them. A pod and a
// time are one value.
func fieldsOfType(all []string, kind reflect.Type, path string) []string {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return fieldsOfType(all, kind.Elem(), path)
	case reflect.Map:
		return fieldsOfType(append(all, path+"{key}"), kind.Elem(), path+"{}")
	case reflect.Struct:
		if kind == reflect.TypeFor[v1.Pod]() || kind.ConvertibleTo(reflect.TypeFor[metav1.Time]()) || kind == reflect.TypeFor[time.Time]() {
			return append(all, path)
		}
		for f := range kind.Fields() {
			if f.IsExported() {
				all = fieldsOfType(all, f.Type, path+"."+f.Name)
			}
		}
		return all
	default:
		return append(all, path)
	}
}

// textsOfMessage appends the fields of a message that can hold a text or a pod. Messages have the same
// numbers as the types.
func textsOfMessage(all []string, m protoreflect.MessageDescriptor, above []protoreflect.FullName) []string {
	if slices.Contains(above, m.FullName()) {
		return all
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		switch f.Kind() {
		case protoreflect.StringKind, protoreflect.BytesKind:
			all = append(all, string(f.FullName()))
		case protoreflect.MessageKind:
			all = textsOfMessage(all, f.Message(), append(above, m.FullName()))
		}
	}
	return all
}
