package configfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/pkg/daemon"
)

// Any file is either refused with faults of bounded length, or can be printed, and what is
// printed gives the same configuration.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(header + "staticPodPth: m\nsocketMode: 0660\naccess: [{view: all, uids: [-1]}]\n"))
	f.Add([]byte(header + "a: &a {b: c}\n<<: *a\nlogging: {verbosity: 1, verbosity: 2}\n"))
	f.Add([]byte(`{"apiVersion":"config.podconfigd.dev/v1alpha1","kind":"PodConfigdConfiguration","listen":[null]}`))
	f.Add([]byte(header + "staticPodURL: http://a\nstaticPodURLHeader: {A.B: [c], a: [], A: null}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		set := flags(func(c *daemon.Config) { c.InCluster = true })
		first, err := load(Files{Config: path}, set)
		if err != nil {
			if len(err.Error()) > 100_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		var out bytes.Buffer
		if err := first.Print(&out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), hidden) {
			return
		}
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		second, err := load(Files{Config: path}, set)
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(first.PodConfigdConfiguration, second.PodConfigdConfiguration); diff != "" {
			t.Errorf("%s\n%s", diff, out.String())
		}
	})
}
