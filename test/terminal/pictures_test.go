package terminal

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The picture of top shows what the present program shows.
func TestThePictureIsUpToDate(t *testing.T) {
	t.Parallel()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command(filepath.Join(root, "hack", "pictures.sh"), daemonProgram, program, dir, "top").CombinedOutput(); err != nil {
		t.Fatalf("hack/pictures.sh: %v\n%s", err, out)
	}
	want, got := text(t, filepath.Join(dir, "top.svg")), text(t, filepath.Join(root, "docs", "images", "top.svg"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/images/top.svg is not up to date, run: make pictures\n%s", diff)
	}
}

func TestThePictureOfTheDemoIsWellFormed(t *testing.T) {
	t.Parallel()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, filepath.Join(root, "docs", "images", "demo.svg")); len(got) < 50 {
		t.Errorf("only %d texts: %q", len(got), got)
	}
}

// changing is what differs from run to run: numbers, the sparkline and the space of columns.
var changing = regexp.MustCompile(`[0-9.]+|[▁▂▃▄▅▆▇█]+|[─━ ]+`)

// text returns the texts of an SVG, without what differs from run to run.
func text(t *testing.T, path string) []string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var texts []string
	decoder := xml.NewDecoder(file)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if data, ok := token.(xml.CharData); ok {
			if s := strings.TrimSpace(changing.ReplaceAllString(string(data), " ")); s != "" {
				texts = append(texts, s)
			}
		}
	}
}
