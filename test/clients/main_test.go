package clients

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// binary is the daemon, and ctl is podconfigctl, as built by "make build".
var binary, ctl string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if ctl, err = testutil.Program(".", "./cmd/podconfigctl"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if binary, err = testutil.Program(".", "./cmd/podconfigd"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}
