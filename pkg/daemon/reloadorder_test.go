package daemon_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// The daemon is not ready while a source that gets another name has no pods. Otherwise its pods in
// the runtime would be orphans, and their mirror pods would be deleted.
func TestReloadRenamesASource(t *testing.T) {
	r := configured(t, "a")
	r.run()
	r.config.FileSources = []daemon.FileSource{{Name: "z", Path: filepath.Join(r.dir, "a")}}
	r.reload("FileSources")
	r.expect("BOOKMARK false (file:z) file file:a", "REMOVE file:a a1-n=1", "BOOKMARK false (file:z) file", "ADD file:z a1-n=1", "BOOKMARK true file file:z")
}

// A reload that removes a source and the rule that hides it shows the pods of the source to
// nobody.
func TestReloadRemovesASourceBeforeItsRule(t *testing.T) {
	r := configured(t, "a")
	r.config.Access = []access.Rule{{Sources: []string{"file"}, View: access.Full}}
	r.run()
	r.config.FileSources, r.config.Access = nil, nil
	r.reload("FileSources", "Access")
	r.write("m/m2.yaml", "1")
	for {
		select {
		case line := <-r.lines:
			if strings.Contains(line, "a1-n") {
				t.Fatalf("got %q, a pod that the rules hid until its source was removed", line)
			}
			if strings.Contains(line, "m2-n") {
				return
			}
		case <-time.After(testutil.Patience):
			t.Fatal("no m2-n")
		}
	}
}
