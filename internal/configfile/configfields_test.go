package configfile

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// Each field of the configuration has its flag, and each flag has its field.
func TestFlagsAndFieldsOfTheConfiguration(t *testing.T) {
	_, flags := flagSet()
	withField := make(map[string]bool)
	for _, field := range v1alpha1.Options {
		withField[field.Flag] = true
		if field.Flag != "" && flags.Lookup(field.Flag) == nil {
			t.Errorf("%s: there is no flag --%s", field.Path, field.Flag)
		}
	}
	for _, name := range []string{"config", "config-dir", "kubelet-config", "kubelet-config-dir"} { // these name the files
		withField[name] = true
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if !withField[flag.Name] {
			t.Errorf("--%s has no field in the configuration file", flag.Name)
		}
	})
}
