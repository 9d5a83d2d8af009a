package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
	"github.com/podconfigd/podconfigd/pkg/sources/sourcetest"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// before runs a source on the path until its first set, and returns what the next process
// restores.
func before(t *testing.T, path string) sources.Restored {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	sets, ended := make(chan config.SourceSet), make(chan error)
	source := New(Options{Path: path, Decoder: manifest.NewDecoder("node1")})
	go func() { ended <- source.Run(ctx, sets) }()
	set := <-sets
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return sourcetest.Restored(t, set)
}

// silent fails if a set comes within a time that is longer than the one for which a file
// must be gone.
func (h *harness) silent() {
	h.t.Helper()
	select {
	case set := <-h.sets:
		h.t.Fatalf("%d pods are sent", len(set.Pods))
	case <-time.After(100 * time.Millisecond):
	}
}

// verdict waits until the manifest has a verdict.
func (h *harness) verdict(name string, state v1alpha1.ManifestState, message string) {
	h.t.Helper()
	h.waitForStatus(func(status v1alpha1.SourceStatus) bool {
		for _, m := range status.File.Manifests {
			if filepath.Base(m.Path) == name {
				return m.State == state && strings.Contains(m.Message, message)
			}
		}
		return false
	})
}

// same fails if the pod is not the restored one.
func same(t *testing.T, pod *v1.Pod, restored sources.Restored) {
	t.Helper()
	if !slices.Contains(restored.Pods, pod) {
		t.Errorf("pod %s is not the restored pointer", pod.Name)
	}
}

// A manifest that is bad at the start comes back in its last good version, until it is
// good again or gone.
func TestRestartWithABadManifest(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"not YAML":       func(path string) error { return os.WriteFile(path, []byte("kind: ["), 0o600) },
		"empty":          func(path string) error { return os.Truncate(path, 0) },
		"a directory":    func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a link to none": func(path string) error { return errors.Join(os.Remove(path), os.Symlink("none", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
			testutil.WriteFile(t, a, podtest.Manifest("a", "1"))
			testutil.WriteFile(t, b, podtest.Manifest("b", "1"))
			restored := before(t, dir)
			if err := spoil(a); err != nil {
				t.Fatal(err)
			}
			testutil.WriteFile(t, b, podtest.Manifest("b", "2"))

			h := run(t, dir, Options{Restored: restored})
			set := h.next()
			if len(set.Pods) != 2 || set.Pods[0].Spec.Containers[0].Image != "1" || set.Pods[1].Spec.Containers[0].Image != "2" {
				t.Fatalf("the pods are %v", set.Pods)
			}
			same(t, set.Pods[0], restored)
			if file := set.Files[0]; file == nil || *file != *restored.Files[set.Pods[0].UID] {
				t.Errorf("the file is %v, want that of the last good version", file)
			}
			h.verdict("a.yaml", v1alpha1.ManifestHeld, "its last good pod is kept")
			if err := os.RemoveAll(a); err != nil {
				t.Fatal(err)
			}
			h.expect("b=2")
			h.put("a.yaml", "3")
			h.expect("a=3", "b=2")
		})
	}
}

// A pod whose manifest is as before is sent once, and not again.
func TestRestartWithoutAChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), podtest.Manifest("a", "1"))
	h := run(t, dir, Options{Restored: before(t, dir)})
	h.expect("a=1")
	h.silent()
	h.verdict("a.yaml", v1alpha1.ManifestAccepted, "")
}

// Who had a name or a UID keeps it across a restart, also if the other file is first in
// lexical order.
func TestRestartWithAClash(t *testing.T) {
	t.Parallel()
	for clash, other := range map[string]string{
		"name": podtest.Manifest("x", "2"),
		"UID":  strings.Replace(podtest.Manifest("other", "2"), "{name: other", "{uid: u, name: other", 1),
	} {
		for name, incumbent := range map[string]string{
			"unchanged": podtest.Manifest("x", "1"), "changed": podtest.Manifest("x", "3"), "bad": "kind: [",
		} {
			t.Run(clash+", "+name, func(t *testing.T) {
				if clash == "UID" {
					incumbent = strings.Replace(incumbent, "{name: x", "{uid: u, name: x", 1)
				}
				dir := t.TempDir()
				a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
				testutil.WriteFile(t, b, strings.Replace(podtest.Manifest("x", "1"), "{name: x", "{uid: u, name: x", 1))
				restored := before(t, dir)
				testutil.WriteFile(t, a, other)
				testutil.WriteFile(t, b, incumbent)

				h := run(t, dir, Options{Restored: restored})
				image := "1"
				if name == "changed" {
					image = "3"
				}
				h.expect("x=" + image)
				h.verdict("a.yaml", v1alpha1.ManifestShadowed, "is taken by b.yaml")
				if err := os.Remove(b); err != nil {
					t.Fatal(err)
				}
				h.expect(map[string]string{"name": "x", "UID": "other"}[clash] + "=2")
			})
		}
	}
}

// The pod of a file that is gone at the start is not in the first set. Another file gets its name.
func TestRestartWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	testutil.WriteFile(t, b, podtest.Manifest("x", "1"))
	restored := before(t, dir)
	testutil.WriteFile(t, a, podtest.Manifest("x", "2"))
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	h := run(t, dir, Options{Restored: restored})
	h.expect("x=2")
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	h.expect()
}

// An empty directory at the start removes the restored pods.
func TestRestartWithAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a.yaml")
	testutil.WriteFile(t, a, podtest.Manifest("a", "1"))
	restored := before(t, dir)
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	h := run(t, dir, Options{Restored: restored})
	h.expect()
}

// An editor replaces a file during the start: it moves it away, and soon writes it again. Its pod is not removed.
func TestRestartWhileAFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a.yaml")
	testutil.WriteFile(t, a, podtest.Manifest("a", "1"))
	restored := before(t, dir)
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	set := manifests.New(manifests.Options{Path: dir, Decoder: manifest.NewDecoder("node1"), Restored: restored})
	for _, present := range []bool{false, true} {
		if present {
			testutil.WriteFile(t, a, podtest.Manifest("a", "2"))
			set.LookAll(t.Context(), true, []string{"a.yaml"})
		} else {
			set.LookAll(t.Context(), true, nil)
		}
		if set.Unread() == present || set.Len() != 1 {
			t.Errorf("present %t: unread %t, %d pods", present, set.Unread(), set.Len())
		}
	}
}

// A path that does not exist or can't be read at the start is not empty if there are
// restored pods. The source sends nothing and is degraded until the path is back.
func TestRestartWithoutThePath(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		because string
		take    func(path, elsewhere string) error
	}{
		"absent": {"no such file", os.Rename},
		"a link to itself": {"too many levels", func(path, elsewhere string) error {
			return errors.Join(os.Rename(path, elsewhere), os.Symlink(path, path))
		}},
		"a FIFO": {"neither a directory", func(path, elsewhere string) error {
			return errors.Join(os.Rename(path, elsewhere), unix.Mkfifo(path, 0o600))
		}},
	} {
		for kind, base := range map[string]string{"directory": "", "single file": "a.yaml"} {
			t.Run(kind+", "+name, func(t *testing.T) {
				top := t.TempDir()
				dir := filepath.Join(top, "manifests")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), podtest.Manifest("a", "1"))
				path, elsewhere := filepath.Join(dir, base), filepath.Join(top, "elsewhere")
				restored := before(t, path)
				if err := test.take(path, elsewhere); err != nil {
					t.Fatal(err)
				}
				h := run(t, path, Options{Restored: restored, Period: 20 * time.Millisecond})
				h.waitForStatus(func(status v1alpha1.SourceStatus) bool {
					return status.Degraded && strings.Contains(status.LastError, test.because) && !status.File.Absent
				})
				h.silent()
				if err := errors.Join(os.RemoveAll(path), os.Rename(elsewhere, path)); err != nil {
					t.Fatal(err)
				}
				h.expect("a=1")
				h.waitForStatus(func(status v1alpha1.SourceStatus) bool { return !status.Degraded })
				h.silent()
			})
		}
	}
}

// A directory that is created again after it was absent at the start is empty: this removes
// the restored pods.
func TestRestartWithoutThePathThatReturnsEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), podtest.Manifest("a", "1"))
	restored := before(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	h := run(t, dir, Options{Restored: restored})
	h.waitForStatus(func(status v1alpha1.SourceStatus) bool { return status.Degraded })
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.expect()
}

// A path that is a file now, where it was a directory.
func TestRestartWithAFileInsteadOfADirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), podtest.Manifest("a", "1"))
	restored := before(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	t.Run("good", func(t *testing.T) {
		testutil.WriteFile(t, dir, podtest.Manifest("c", "1"))
		h := run(t, dir, Options{Restored: restored})
		h.expect("c=1")
	})
	t.Run("bad", func(t *testing.T) {
		testutil.WriteFile(t, dir, "kind: [")
		h := run(t, dir, Options{Restored: restored, Period: 20 * time.Millisecond})
		h.waitForStatus(func(status v1alpha1.SourceStatus) bool {
			return status.Degraded && strings.Contains(status.LastError, "can't be used")
		})
		h.silent()
		h.prepare("c.yaml", "1")
		if err := os.Rename(filepath.Join(h.temp, "c.yaml"), dir); err != nil {
			t.Fatal(err)
		}
		h.expectAtLast("c=1")
	})
	t.Run("bad, then gone", func(t *testing.T) {
		testutil.WriteFile(t, dir, "kind: [")
		h := run(t, dir, Options{Restored: restored})
		h.waitForStatus(func(status v1alpha1.SourceStatus) bool { return status.Degraded })
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		h.waitForStatus(func(status v1alpha1.SourceStatus) bool {
			return status.Degraded && strings.Contains(status.LastError, "no such file")
		})
		h.silent()
	})
}

// A path that is a directory now, where it was a file.
func TestRestartWithADirectoryInsteadOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifests")
	testutil.WriteFile(t, path, podtest.Manifest("a", "1"))
	restored := before(t, path)
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	testutil.WriteFile(t, filepath.Join(path, "c.yaml"), podtest.Manifest("c", "1"))
	h := run(t, path, Options{Restored: restored})
	h.expect("c=1")
}

// A single file that is bad at the start comes back in its last good version.
func TestRestartWithABadSingleFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	testutil.WriteFile(t, path, podtest.Manifest("a", "1"))
	restored := before(t, path)
	testutil.WriteFile(t, path, "kind: [")
	h := run(t, path, Options{Restored: restored})
	same(t, h.expect("a=1")[0], restored)
	h.verdict("a.yaml", v1alpha1.ManifestHeld, "its last good pod is kept")
	h.prepare("a.yaml", "2")
	if err := os.Rename(filepath.Join(h.temp, "a.yaml"), path); err != nil {
		t.Fatal(err)
	}
	h.expect("a=2")
}

// Pods from a path of another spelling do not belong to the source, also if it is the same
// directory, because their UIDs depend on the spelling.
func TestRestartWithAnotherPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a := filepath.Join(dir, "a.yaml")
	testutil.WriteFile(t, a, podtest.Manifest("a", "1"))
	restored := before(t, dir)
	testutil.WriteFile(t, a, "kind: [")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path string
		want []string
	}{
		"same": {dir, []string{"a=1"}}, "a slash at the end": {dir + "/", []string{"a=1"}},
		"same after cleaning": {dir + "/../manifests", []string{"a=1"}}, "the file itself": {a, []string{"a=1"}},
		"a link to it": {link, nil}, "another directory": {t.TempDir(), nil}, "an absent path": {dir + "2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := run(t, test.path, Options{Restored: restored})
			h.expect(test.want...)
			h.silent()
		})
	}
}
