package configfile

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/daemon"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// filesIn returns the configuration files in a Markdown text: the YAML blocks of this kind.
func filesIn(markdown string) (files []string) {
	for _, m := range regexp.MustCompile("(?s)\n```yaml\n(.*?\n)```").FindAllStringSubmatch(markdown, -1) {
		if strings.Contains(m[1], "\nkind: PodConfigdConfiguration") {
			files = append(files, m[1])
		}
	}
	return files
}

// The configuration files in the documentation can be used.
func TestFilesInTheDocumentation(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run")
	found := 0
	for page, text := range testutil.Pages(t) {
		for _, file := range filesIn(text) {
			found++
			dir := write(t, map[string]string{"c.yaml": file})
			if _, err := load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(func(c *daemon.Config) { c.InCluster = true })); err != nil {
				t.Errorf("%s: %v\n%s", page, err, file)
			}
		}
	}
	if found == 0 {
		t.Error("no file was found")
	}
}
