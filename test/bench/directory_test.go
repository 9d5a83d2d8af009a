package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// nodeName is the node of the pods.
const nodeName = "bench-node"

// manifest is a pod of three containers with ten environment variables each.
type manifest struct {
	name, version string
	// uid is the pod's UID. If it is empty, each version of the manifest is another pod,
	// because the UID is a hash of the content.
	uid string
}

func (m manifest) yaml() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: kube-system\n", m.name)
	if m.uid != "" {
		fmt.Fprintf(&b, "  uid: %s\n", m.uid)
	}
	fmt.Fprintf(&b, "  labels:\n    app: %s\n  annotations:\n    %s: %q\n", m.name, peer.VersionAnnotation, m.version)
	b.WriteString("spec:\n  containers:\n")
	for c := range 3 {
		fmt.Fprintf(&b, "  - name: container-%d\n    image: registry.example/%s/%d:1.0\n    env:\n", c, m.name, c)
		for e := range 10 {
			fmt.Fprintf(&b, "    - name: VARIABLE_%d\n      value: value-%d-of-container-%d\n", e, e, c)
		}
	}
	return []byte(b.String())
}

// directory is a manifest directory. Manifests are first written to staging, which nobody
// watches.
type directory struct{ path, staging string }

func newDirectory(tb testing.TB) *directory {
	tb.Helper()
	base := tb.TempDir()
	d := &directory{path: filepath.Join(base, "manifests"), staging: filepath.Join(base, "staging")}
	for _, dir := range []string{d.path, d.staging} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

// newDirectoryOf returns a directory with the number of manifests.
func newDirectoryOf(tb testing.TB, manifests int) *directory {
	tb.Helper()
	d := newDirectory(tb)
	for i := range manifests {
		d.put(tb, manifest{name: fmt.Sprintf("pod-%04d", i), version: "0"})
	}
	return d
}

// put renames a manifest into the directory, and replaces one with the same name. It
// returns the time before the rename.
func (d *directory) put(tb testing.TB, m manifest) time.Duration {
	tb.Helper()
	temp := filepath.Join(d.staging, m.name)
	if err := os.WriteFile(temp, m.yaml(), 0o600); err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(d.path, m.name+".yaml")
	before := peer.Now()
	if err := os.Rename(temp, path); err != nil {
		tb.Fatal(err)
	}
	return before
}
