package commandtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var manDir = flag.String("man", "", "write the manual pages into this directory")

// ManPages tests that each command has a manual page. hack/packages.sh writes them.
func ManPages(t *testing.T, root *cobra.Command) {
	t.Helper()
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	// The date of the pages is SOURCE_DATE_EPOCH.
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "podconfigd", Manual: "podconfigd"}, dir); err != nil {
		t.Fatal(err)
	}
	walk(root, func(cmd *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), `\fB`+cmd.Root().Name()) {
			t.Errorf("the page of %q: %v, %q", cmd.CommandPath(), err, page)
		}
	})
}
