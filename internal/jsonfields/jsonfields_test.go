package jsonfields

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestOf(t *testing.T) {
	type Base struct {
		Kind string `json:"kind,omitempty"`
	}
	type object struct {
		Base   `json:",inline"` //nolint:revive // the tag of Kubernetes types
		Name   string           `json:"name"`
		Hidden string           `json:"-"`
		Other  int
		inner  int
	}
	fields := Of(reflect.TypeFor[object]())
	if names := strings.Join(slices.Sorted(maps.Keys(fields)), " "); names != "kind name" {
		t.Errorf("the fields are %s", names)
	}
	value := reflect.ValueOf(object{Base: Base{"Pod"}, Name: "web", inner: 1})
	for name, want := range map[string]string{"kind": "Pod", "name": "web"} {
		if got := value.FieldByIndex(fields[name].Index).String(); got != want || fields[name].Omits != (name == "kind") {
			t.Errorf("%s: %s, %+v", name, got, fields[name])
		}
	}
	if fields := Of(reflect.TypeFor[[]object]()); fields != nil {
		t.Errorf("a list has the fields %v", fields)
	}
	// The metadata of a pod are anonymous, but have a name. The sources of a volume have none.
	if pod := Of(reflect.TypeFor[v1.Pod]()); len(pod) != 5 || pod["metadata"].Type.Name() != "ObjectMeta" {
		t.Errorf("a pod has the fields %v", pod)
	}
	if volume := Of(reflect.TypeFor[v1.Volume]()); len(volume["emptyDir"].Index) != 2 {
		t.Errorf("a volume has the fields %v", volume)
	}
}
