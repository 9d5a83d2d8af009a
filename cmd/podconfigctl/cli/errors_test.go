package cli

import (
	"net/http"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// Errors of the daemon name the flags, except those of a daemon that does not know a parameter.
func TestErrorsNameFlags(t *testing.T) {
	for message, want := range map[string]string{
		`parameter "fieldSelector": unknown field "a"`:    `--field-selector: unknown field "a"`,
		`parameter "owner": start it with --owners`:       `--owner: start it with --owners`,
		`unknown parameter "owner": expected one of mode`: `unknown parameter "owner": expected one of mode`,
	} {
		if got := AsFlags(&client.RefusedError{Code: http.StatusBadRequest, Message: message}).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
