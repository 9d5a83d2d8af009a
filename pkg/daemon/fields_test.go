package daemon_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// notSet are the fields of Config that users do not set.
var notSet = map[daemon.FieldName]string{
	"InCluster":            "the environment of a pod sets it",
	"NotifyServiceManager": "the command sets it",
	"SocketActivation":     "the command sets it",
	"Collectors":           "the program sets it",
}

// Each field of Config can be set in the config file, or is listed with the reason why not.
func TestEachFieldCanBeSet(t *testing.T) {
	listed := make(map[daemon.FieldName]bool)
	paths := make(map[string]bool)
	for _, field := range daemon.Fields() {
		if listed[field.Name] || paths[field.Path] || field.Path == "" {
			t.Errorf("%+v has no path, or is listed twice", field)
		}
		listed[field.Name], paths[field.Path] = true, true
	}
	var look func(typ reflect.Type, above string)
	look = func(typ reflect.Type, above string) {
		for field := range typ.Fields() {
			name := daemon.FieldName(above + field.Name)
			switch {
			case listed[name]:
				delete(listed, name)
			case notSet[name] != "":
			case field.Type.Kind() == reflect.Struct:
				look(field.Type, string(name)+".")
			default:
				t.Errorf("%s can't be set: add it to fields and to api/config, or to notSet", name)
			}
		}
	}
	look(reflect.TypeFor[daemon.Config](), "")
	for name := range listed {
		t.Errorf("Config has no field %s", name)
	}
}

func TestFaultsNameTheirFields(t *testing.T) {
	config := valid()
	config.PLEGRelistThreshold = config.PLEGRelistPeriod
	fault, ok := errors.AsType[*daemon.FieldError](config.Validate())
	if !ok {
		t.Fatalf("%v is no *FieldError", config.Validate())
	}
	want := "--pleg-relist-threshold: 1s is too short for --pleg-relist-period=1s: expected 2s or more"
	if fault.Error() != want {
		t.Errorf("%q, want %q", fault.Error(), want)
	}
	if fields := fault.Fields(); !reflect.DeepEqual(fields, []daemon.FieldName{"PLEGRelistThreshold", "PLEGRelistPeriod"}) {
		t.Errorf("fields %v", fields)
	}
	inFile := func(name daemon.FieldName) string { field, _ := name.Field(); return field.Path }
	if text := fault.Text(inFile); !strings.HasPrefix(text, "1s is too short for plegRelistPeriod=1s:") {
		t.Errorf("in the file: %q", text)
	}
}

func TestAFieldOfAListHasTheFlagOfTheList(t *testing.T) {
	for name, want := range map[daemon.FieldName]string{
		"FileSources[1].Path":    "--pod-manifest-path",
		"StaticPodURL":           "--manifest-url",
		"StaticPodURLHeader":     "--manifest-url-header",
		"Access[0].View":         "Access[0].View",
		"Authentication.Webhook": "--authentication-token-webhook",
		"Unknown":                "Unknown",
	} {
		if got := name.String(); got != want {
			t.Errorf("%s is %q, want %q", string(name), got, want)
		}
	}
	if _, rest := daemon.FieldName("FileSources[1].Path").Field(); rest != "[1].Path" {
		t.Errorf("rest %q", rest)
	}
}
