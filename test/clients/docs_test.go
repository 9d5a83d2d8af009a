package clients

import (
	"os"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// The pages have a part of each configuration that the tests run. test/docs checks that it is the same text.
func TestDocsAreWhatRuns(t *testing.T) {
	pages := testutil.Pages(t)
	page := pages["docs/how-to/clients.md"] + pages["docs/how-to/collect-from-a-fleet.md"]
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.Contains(page, "<!-- test/clients/testdata/"+file.Name()+" -->\n```") {
			t.Errorf("docs/how-to shows nothing of testdata/%s", file.Name())
		}
	}
}
