//go:build linux

package main

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

// The packages have a manual page for each command. hack/packages.sh writes them.
func TestManPages(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run") // so that the default of --socket is that of root
	t.Setenv("PODCONFIGD_SOCKET", "")
	t.Setenv("PODCONFIGD_SERVER", "")
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := newRootCommand()
	// The date of the pages is SOURCE_DATE_EPOCH.
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "podconfigd", Manual: "podconfigd"}, dir); err != nil {
		t.Fatal(err)
	}
	walkCommands(root, func(cmd *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), `\fB`+cmd.Root().Name()) {
			t.Errorf("the page of %q: %v, %q", cmd.CommandPath(), err, page)
		}
	})
}
