package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
)

// parameter finds the name of a parameter that the daemon refuses.
var parameter = regexp.MustCompile(`parameter "(\w+)"`)

// AsFlags returns an error of the daemon with the names of the flags in place of those of the parameters. A daemon of another version
// does not know all parameters. It then lists those that it knows, and not all of these are flags.
func AsFlags(err error) error {
	refused, ok := errors.AsType[*client.RefusedError](err)
	if !ok || refused.Code != http.StatusBadRequest || strings.HasPrefix(refused.Message, "unknown parameter") {
		return err
	}
	text := parameter.ReplaceAllString(err.Error(), "--$1")
	return errors.New(strings.NewReplacer("--fieldSelector", "--field-selector", "--labelSelector", "--selector").Replace(text))
}

// NoteDisconnects returns an OnDisconnect that prints why a stream broke, once for each reason, and not at each attempt.
func NoteDisconnects(notes io.Writer) func(err error, retryIn time.Duration) {
	var last string
	return func(err error, _ time.Duration) {
		if err.Error() != last {
			last = err.Error()
			fmt.Fprintf(notes, "podconfigctl: %v; reconnecting\n", err)
		}
	}
}
