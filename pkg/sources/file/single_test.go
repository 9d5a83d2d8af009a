package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A single file that is bad at the start is not an empty set. The source is not seen
// until the file is good, or until it is removed, which counts as if it had never
// existed.
func TestSingleFileThatIsBadAtTheStart(t *testing.T) {
	t.Parallel()
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
	h.verdict("a.yaml", v1alpha1.ManifestRejected, "")
	h.silent()
	return h, path
}

// A directory that is replaced by a file that can't be used keeps its pods, and the source
// is degraded, until the file can be used or the directory is back.
func TestADirectoryIsReplacedByAFileThatCanNotBeUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, h *harness, elsewhere string){
		"then it can be used": func(t *testing.T, h *harness, _ string) {
			t.Helper()
			h.prepare("c.yaml", "1")
			if err := os.Rename(filepath.Join(h.temp, "c.yaml"), h.dir); err != nil {
				t.Fatal(err)
			}
			h.expectAtLast("c=1")
		},
		"then the directory is back": func(t *testing.T, h *harness, elsewhere string) {
			t.Helper()
			if err := errors.Join(os.Remove(h.dir), os.Rename(elsewhere, h.dir)); err != nil {
				t.Fatal(err)
			}
			h.put("c.yaml", "1")
			h.expect("a=1", "b=1", "c=1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			h := run(t, filepath.Join(top, "manifests"), Options{Period: 20 * time.Millisecond})
			h.expect()
			if err := os.Mkdir(h.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			h.put("a.yaml", "1")
			h.expect("a=1")
			h.put("b.yaml", "1")
			h.expect("a=1", "b=1")

			elsewhere, broken := filepath.Join(top, "elsewhere"), filepath.Join(h.temp, "broken")
			if err := os.WriteFile(broken, []byte("kind: ["), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Rename(h.dir, elsewhere), os.Rename(broken, h.dir)); err != nil {
				t.Fatal(err)
			}
			h.waitForStatus(func(status v1alpha1.SourceStatus) bool {
				return status.Degraded && strings.Contains(status.LastError, "can't be used")
			})
			h.silent()
			if status := h.source.Status(); !status.Degraded {
				t.Errorf("the status is %+v", status)
			}
			test(t, h, elsewhere)
			h.waitForStatus(func(status v1alpha1.SourceStatus) bool { return !status.Degraded })
		})
	}
}

// The file in place of a directory is removed too. The status says that the path is gone, and no longer that there is a file,
// also when something else changes beside it.
func TestAFileInPlaceOfADirectoryIsGone(t *testing.T) {
	t.Parallel()
	h := run(t, filepath.Join(t.TempDir(), "manifests"), Options{pollPeriod: 5 * time.Millisecond})
	h.expect()
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.put("a.yaml", "1")
	h.expect("a=1")
	if err := errors.Join(os.RemoveAll(h.dir), os.WriteFile(h.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	h.waitForStatus(func(status v1alpha1.SourceStatus) bool { return strings.Contains(status.LastError, "can't be used") })
	if err := os.Remove(h.dir); err != nil {
		t.Fatal(err)
	}
	gone := func(status v1alpha1.SourceStatus) bool { return strings.Contains(status.LastError, "no such file") }
	h.waitForStatus(gone)
	replaced, before := h.failures(sources.ReasonReplaced), h.failures(sources.ReasonNotFound)
	h.waitForStatus(func(v1alpha1.SourceStatus) bool {
		if err := os.WriteFile(filepath.Join(filepath.Dir(h.dir), "other"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return h.failures(sources.ReasonNotFound) >= before+10
	})
	if n := h.failures(sources.ReasonReplaced); n != replaced || !gone(h.source.Status()) {
		t.Errorf("%v errors of a file that is gone: %+v", n-replaced, h.source.Status())
	}
	h.silent()
}

// failures returns the number of errors with a reason.
func (h *harness) failures(reason sources.Reason) float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == "podconfigd_source_errors_total" && label.GetName() == "reason" && label.GetValue() == string(reason) {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// waitForStatus waits for a status.
func (h *harness) waitForStatus(is func(v1alpha1.SourceStatus) bool) {
	h.t.Helper()
	for deadline := time.Now().Add(testutil.Patience); !is(h.source.Status()); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("the status is %+v", h.source.Status())
		}
	}
}

// expectAtLast waits for the set of one pod, "name=image". Sets before it may have more pods.
func (h *harness) expectAtLast(want string) {
	h.t.Helper()
	for {
		select {
		case set := <-h.sets:
			last := set.Pods[len(set.Pods)-1]
			if len(set.Pods) == 1 && strings.TrimSuffix(last.Name, "-node1")+"="+last.Spec.Containers[0].Image == want {
				return
			}
		case <-time.After(testutil.Patience):
			h.t.Fatalf("no set of only %s", want)
		}
	}
}
