//go:build linux

package main

import (
	"strings"
	"testing"
)

// The error of a flag never contains a value that can be a secret, because the daemon logs the error.
func TestErrorsOfFlagsHaveNoSecrets(t *testing.T) {
	for want, args := range map[string][]string{
		`invalid argument for "--manifest-url" flag: a second URL with the name "a"`:          {"--manifest-url=a=http://h/?t=s3cret", "--manifest-url=a=http://u:s3cret@h/"},
		`invalid argument for "--manifest-url" flag: a second URL without a name`:             {"--manifest-url=http://h/", "--manifest-url=http://u:s3cret@h/"},
		`unknown shorthand flag: "m" in -manifest-url; see "podconfigd --help"`:               {"-manifest-url=https://u:s3cret@h/"},
		`bad flag syntax: expected --name=value`:                                              {"--=https://u:s3cret@h/"},
		`invalid argument for "--manifest-url-header" flag: malformed pair`:                   {"--manifest-url-header=Authorization Bearer s3cret"},
		`invalid argument "a=/x" for "--pod-manifest-path" flag: a second PATH with the name`: {"--pod-manifest-path=a=/y", "--pod-manifest-path=a=/x"},
	} {
		cmd := newRootCommand()
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
