package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// adoptedAfter is longer than podconfigd waits before it takes UIDs of a kubelet that no rules give: see package kubelet.
const adoptedAfter = 80 * time.Second

// TestACopyOfTheOnlyManifest puts a copy of the only static pod beside its manifest. The kubelet runs the pod of the copy, because its
// file name is the last. podconfigd serves the original and never gives it the UID of the copy, also if it is edited. The status says
// what the kubelet runs. If podconfigd ignores the copy, it can't know of it, and still takes no UID that is not that of the original.
func TestACopyOfTheOnlyManifest(t *testing.T) {
	for _, minor := range []string{"1.36", "1.37"} {
		for _, ignored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ignored: %t", minor, ignored), func(t *testing.T) { newWorld(t).copies(t, minor, ignored) })
		}
	}
}

func (w *world) copies(t *testing.T, minor string, ignored bool) {
	t.Helper()
	for name := range pods {
		if name != "plain" {
			if err := os.Remove(filepath.Join(w.manifests(), name+".yaml")); err != nil {
				t.Fatal(err)
			}
		}
	}
	original := filepath.Join(w.manifests(), "plain.yaml")
	data, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	w.kubelet = components.StartKubeletVersion(t, w.runtime, minor, "node1", w.manifests(), "--healthz-port=10248")
	if ignored {
		w.flags = []string{"--ignore-manifests", "*.backup"}
	}
	w.start(t)
	testutil.Eventually(t, func() error { // until then, UIDs can change
		status, err := w.client.Status(t.Context())
		if err == nil && status.Kubelet.Rules != minor {
			err = fmt.Errorf("podconfigd has not seen that kubelet %s runs: %+v", minor, status.Kubelet)
		}
		return err
	})
	w.sameOnlyUID(t)
	first := w.theirUID(t)

	testutil.WriteFile(t, original+".backup", string(data))
	testutil.Eventually(t, func() error {
		if w.theirUID(t) == first {
			return fmt.Errorf("the kubelet runs the pod of the original")
		}
		return nil
	})
	theirs := w.theirUID(t)
	w.saysThatTheCopyRuns(t, ignored)
	if got := w.ourUID(t); got != first {
		t.Errorf("the original has UID %s, want %s", got, first)
	}

	w.begin()
	edited := strings.Replace(string(data), "{name: plain}", "{name: plain, labels: {edited: \"1\"}}", 1)
	testutil.WriteFile(t, original, edited)
	testutil.Eventually(t, func() error {
		if w.ourUID(t) == first {
			return fmt.Errorf("the edit is not read")
		}
		return nil
	})
	want := w.ourUID(t)
	for end := time.After(adoptedAfter); end != nil; {
		select {
		case <-end:
			end = nil
		case <-time.After(time.Second):
		}
		if got := w.ourUID(t); got == theirs || got != want {
			t.Fatalf("the original has UID %s, want %s; the copy has %s", got, want, theirs)
		}
	}
	for _, l := range w.lines() { // also for a moment
		if op := l.update.Op; (op == v1alpha1.OpAdd || op == v1alpha1.OpUpdate) && uids(l)[theirs] != "" {
			t.Errorf("podconfigd gave the pod the UID of the copy: %v", l)
		}
	}
	w.saysThatTheCopyRuns(t, ignored)

	if err := os.Remove(original + ".backup"); err != nil {
		t.Fatal(err)
	}
	w.sameOnlyUID(t)
	if got := w.ourUID(t); got != want {
		t.Errorf("the original has UID %s, want %s", got, want)
	}
	w.end(t)
}

// saysThatTheCopyRuns waits until the status says it, or of an ignored copy, that the kubelet has the pod from another file.
func (w *world) saysThatTheCopyRuns(t *testing.T, ignored bool) {
	t.Helper()
	others, detail := 0, "the kubelet runs default/plain-node1 of plain.yaml.backup"
	if ignored {
		others, detail = 1, "or has it from another file"
	}
	testutil.Eventually(t, func() error {
		status, err := w.client.Status(t.Context())
		if err == nil && (status.Kubelet.OtherUIDs != others || !strings.Contains(status.Kubelet.Detail, detail)) {
			err = fmt.Errorf("%+v", status.Kubelet)
		}
		return err
	})
	t.Log("the status says that the kubelet runs the copy")
}

func (w *world) theirUID(t *testing.T) (uid types.UID) {
	t.Helper()
	testutil.Eventually(t, func() error {
		pods, err := w.kubelet.Pods(t)
		if err == nil && pods["plain-node1"] == nil {
			err = fmt.Errorf("the kubelet has no pod")
		}
		if err == nil {
			uid = pods["plain-node1"].UID
		}
		return err
	})
	return uid
}

func (w *world) ourUID(t *testing.T) types.UID {
	t.Helper()
	ours, err := w.static(t)
	if err != nil || len(ours) != 1 {
		t.Fatalf("%d pods, %v", len(ours), err)
	}
	return ours[0].UID
}

// sameOnlyUID waits until podconfigd and the kubelet have the pod with the same UID.
func (w *world) sameOnlyUID(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error {
		theirs, err := w.kubelet.Pods(t)
		if err == nil {
			err = w.sameUIDs(t, theirs)
		}
		return err
	})
}
