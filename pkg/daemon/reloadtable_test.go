package daemon

import (
	"reflect"
	"testing"
)

// Each field of Config is in the table of Reload.
func TestEachFieldIsReloadedOrNot(t *testing.T) {
	for field := range reflect.TypeFor[Config]().Fields() {
		if _, listed := reloads[FieldName(field.Name)]; !listed {
			t.Errorf("add %s to reloads: with the part that takes a change, or with onlyAtStart", field.Name)
		}
	}
	for name := range reloads {
		if _, is := reflect.TypeFor[Config]().FieldByName(string(name)); !is {
			t.Errorf("Config has no field %s", name)
		}
	}
}
