package clients

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// Each block of configuration in docs/how-to/clients.md is a part of the file that the comment
// before it names. The tests run these files.
func TestDocsAreWhatRuns(t *testing.T) {
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	if fences := strings.Count(string(page), "\n```\n"); fences != len(block.FindAll(page, -1)) {
		t.Errorf("a block of the %d in docs/how-to/clients.md has no comment with a file before it", fences)
	}
	shown := make(map[string]bool)
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		file, text := m[1], m[2]
		shown[filepath.Base(file)] = true
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(data), text) {
			t.Errorf("%s does not have this text of docs/how-to/clients.md:\n%s", file, text)
		}
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !shown[file.Name()] {
			t.Errorf("docs/how-to/clients.md shows nothing of testdata/%s", file.Name())
		}
	}
}

var block = regexp.MustCompile("(?s)<!-- (test/clients/\\S+) -->\n```[a-z]+\n(.*?)```\n")
