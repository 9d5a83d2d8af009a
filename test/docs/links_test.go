package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// link is a link within this repository.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	pages := testutil.Pages(t)
	anchors := make(map[string]map[string]bool)
	for page, text := range pages {
		anchors[page] = anchorsOf(text)
	}
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := page, strings.TrimPrefix(m[2], "#")
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(filepath.Join("..", "..", target)); err != nil {
				t.Errorf("%s: a link to %s: %v", page, m[1], err)
			} else if known, isPage := anchors[target]; isPage && anchor != "" && !known[anchor] {
				t.Errorf("%s: %s has no heading for a link to #%s", page, target, anchor)
			}
		}
	}
}

// anchorsOf returns the anchors of the headings of a page, as GitHub makes them.
func anchorsOf(markdown string) map[string]bool {
	anchors := make(map[string]bool)
	fenced := false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if heading := strings.TrimLeft(line, "#"); !fenced && heading != line && strings.HasPrefix(heading, " ") {
			anchors[anchorOf(strings.TrimSpace(heading))] = true
		}
	}
	return anchors
}

// notInAnchors is what GitHub removes from a heading.
var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

func anchorOf(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// Every page below docs is in the index, or linked by a page that is.
func TestEveryPageIsInTheIndex(t *testing.T) {
	pages := testutil.Pages(t)
	index := pages["docs/README.md"]
	for page := range pages {
		name, inDocs := strings.CutPrefix(page, "docs/")
		if !inDocs || name == "README.md" || strings.HasPrefix(name, "adr/") {
			continue
		}
		if !strings.Contains(index, "]("+name+")") && !strings.Contains(index, "]("+name+"#") {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// file is the path of a file of the source tree between backquotes.
var file = regexp.MustCompile("`((?:api|cmd|deploy|examples|hack|internal|pkg|test)/[\\w./-]+\\.\\w+)`")

// A file that a page names exists. A file that was moved has its new place there too.
func TestFilesInPagesExist(t *testing.T) {
	for page, text := range testutil.Pages(t) {
		if page == "CHANGELOG.md" {
			continue // it has files of earlier versions
		}
		for _, m := range file.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// page is the path of a page in a comment or a message.
var page = regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`)

func TestPagesInOtherFilesExist(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	for _, dir := range []string{"api", "cmd", "deploy", "examples", "hack", "internal", "pkg"} {
		err := fs.WalkDir(root, dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			for _, name := range page.FindAllString(string(text), -1) {
				if _, err := fs.Stat(root, name); err != nil {
					t.Errorf("%s names %s: %v", path, name, err)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
