package daemon_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/daemon"
)

func TestFaultsNameTheirFields(t *testing.T) {
	config := valid()
	config.PLEGRelistThreshold = every(1e9)
	fault, ok := errors.AsType[*daemon.FieldError](config.Validate())
	if !ok {
		t.Fatalf("%v is no *FieldError", config.Validate())
	}
	want := "--pleg-relist-threshold: 1s is too short for --pleg-relist-period=1s: expected 2s or more"
	if fault.Error() != want {
		t.Errorf("%q, want %q", fault.Error(), want)
	}
	if fields := fault.Fields(); !reflect.DeepEqual(fields, []daemon.FieldName{"plegRelistThreshold", "plegRelistPeriod"}) {
		t.Errorf("fields %v", fields)
	}
	inFile := func(name daemon.FieldName) string { return string(name) }
	if text := fault.Text(inFile); !strings.HasPrefix(text, "1s is too short for plegRelistPeriod=1s:") {
		t.Errorf("in the file: %q", text)
	}
}

func TestAFieldOfAListHasTheFlagOfTheList(t *testing.T) {
	for name, want := range map[daemon.FieldName]string{
		"fileSources[1].path":            "--pod-manifest-path",
		"staticPodURL":                   "--manifest-url",
		"staticPodURLHeader":             "--manifest-url-header",
		"access[0].view":                 "access[0].view",
		"authentication.webhook.enabled": "--authentication-token-webhook",
		"unknown":                        "unknown",
	} {
		t.Run(string(name), func(t *testing.T) {
			if got := name.String(); got != want {
				t.Errorf("%s is %q, want %q", string(name), got, want)
			}
		})
	}
}
