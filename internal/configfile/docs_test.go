package configfile

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// filesIn returns the configuration files in a Markdown text: the indented or fenced blocks that
// have the apiVersion.
func filesIn(markdown string) (files []string) {
	block := ""
	fenced := false
	end := func() {
		if strings.Contains(block, "\nkind: PodConfigdConfiguration") {
			files = append(files, block)
		}
		block = ""
	}
	for line := range strings.Lines(markdown) {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			fenced = !fenced
		case fenced:
			block += line
		case indented:
			block += text
		case strings.TrimSpace(line) == "":
			block += line
		default:
			end()
		}
	}
	end()
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
			if _, err := Load(Files{Config: filepath.Join(dir, "c.yaml")}, flags(func(c *daemon.Config) { c.InCluster = true })); err != nil {
				t.Errorf("%s: %v\n%s", page, err, file)
			}
		}
	}
	if found == 0 {
		t.Error("no file was found")
	}
}
