package daemon

import (
	"os"
	"reflect"
	"strings"
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

// The table of the documentation has the fields that change while the daemon runs, and only those.
func TestReloadTableOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| fields | on SIGHUP |")
	table, _, found := strings.Cut(table, "| all others |")
	if !found {
		t.Fatal("the table is not there")
	}
	for _, field := range fields {
		listed := strings.Contains(table, "`"+field.Path+"`") || strings.HasPrefix(field.Path, "staticPodURL") && strings.Contains(table, "`staticPodURL…`")
		if reloaded := reloads[top(field.Name)] != onlyAtStart; listed != reloaded && !strings.HasPrefix(field.Path, "access") {
			t.Errorf("%s: in the table %t, reloaded %t", field.Path, listed, reloaded)
		}
	}
}
