package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// A single file that is bad at the start is not an empty set. The source is not seen
// until the file is good, or until it is removed, which counts as if it had never
// existed.
func TestSingleFileThatIsBadAtTheStart(t *testing.T) {
	t.Run("mended", func(t *testing.T) {
		h, path := startOnUnusableFile(t)
		h.prepare("a.yaml", "1")
		if err := os.Rename(filepath.Join(h.temp, "a.yaml"), path); err != nil {
			t.Fatal(err)
		}
		h.expect("a=1")
	})
	t.Run("removed", func(t *testing.T) {
		h, path := startOnUnusableFile(t)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		h.expect()
		status := h.source.Status()
		if status.Degraded || !status.File.Absent || len(status.File.Manifests) > 0 {
			t.Errorf("the status is %+v, %+v", status, status.File)
		}
	})
}

func startOnUnusableFile(t *testing.T) (h *harness, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte("kind: Pod"), 0o600); err != nil {
		t.Fatal(err)
	}
	h = run(t, path, Options{})
	for deadline := time.Now().Add(20 * time.Second); ; {
		manifests := h.source.Status().File.Manifests
		if len(manifests) == 1 && manifests[0].State == v1alpha1.ManifestRejected {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the verdicts are %v", manifests)
		}
		<-time.After(time.Millisecond)
	}
	select {
	case set := <-h.sets:
		t.Fatalf("%d pods are sent", len(set.Pods))
	case <-time.After(100 * time.Millisecond):
	}
	return h, path
}
