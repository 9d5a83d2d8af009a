package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/e2e"
)

// requests returns the lines of the access log.
func requests(t *testing.T, n *e2e.Nginx) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.Dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}
