package main

import (
	"strings"
	"testing"
)

// The error of a flag never contains a value that can be a secret, because the daemon logs the error.
func TestErrorsOfFlagsHaveNoSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"a name twice":    {`invalid argument for "--manifest-url" flag: a second URL with the name "a"`, []string{"--manifest-url=a=http://h/?t=s3cret", "--manifest-url=a=http://u:s3cret@h/"}},
		"no name, twice":  {`invalid argument for "--manifest-url" flag: a second URL without a name`, []string{"--manifest-url=http://h/", "--manifest-url=http://u:s3cret@h/"}},
		"one dash":        {`unknown shorthand flag: "m" in -manifest-url; see "podconfigd --help"`, []string{"-manifest-url=https://u:s3cret@h/"}},
		"no flag":         {`bad flag syntax: expected --name=value`, []string{"--=https://u:s3cret@h/"}},
		"half a header":   {`invalid argument for "--manifest-url-header" flag: malformed pair`, []string{"--manifest-url-header=Authorization Bearer s3cret"}},
		"a path is shown": {`invalid argument "a=/x" for "--pod-manifest-path" flag: a second PATH with the name`, []string{"--pod-manifest-path=a=/y", "--pod-manifest-path=a=/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newRootCommand()
			cmd.SetArgs(c.args)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
