package kubelet

import (
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

const original, backup = "/manifests/web.yaml", "/manifests/web.yaml.backup"

// decode decodes the pod web in a file, with another image for each version. It returns the UID.
func (w *world) decode(m manifest.Minor, file, version string) types.UID {
	w.t.Helper()
	decoder := w.decoder
	if m != 0 {
		decoder = manifest.NewDecoder("node1").For(m)
	}
	pod, _, err := decoder.DecodeFile(file, []byte(strings.ReplaceAll(string(data("web")), "image: i", "image: i:"+version)))
	if err != nil {
		w.t.Fatal(err)
	}
	return pod.UID
}

// A kubelet runs the pod of the last of two files, and podconfigd serves that of the first. The UID of the kubelet's pod is never that
// of the pod in the first file, also if it is the only static pod.
func TestTheKubeletRunsAnotherFile(t *testing.T) {
	for name, test := range map[string]struct {
		minor manifest.Minor
		live  func(w *world, theirs types.UID)
	}{
		"the copy was there first": {37, func(w *world, theirs types.UID) {
			w.decode(0, original, "1")
			w.decode(0, backup, "1")
			w.runAs(theirs, "web")
			w.look()
		}},
		"the kubelet was there first": {37, func(w *world, theirs types.UID) {
			w.runAs(theirs, "web")
			w.finder.look(w.sandboxes)
			w.decode(0, original, "1")
			w.decode(0, backup, "1")
		}},
		"the kubelet followed the copy": {37, func(w *world, theirs types.UID) {
			w.runAs(w.decode(0, original, "1"), "web")
			w.look()
			w.decode(0, original, "1")
			w.decode(0, backup, "1")
			w.sandboxes = nil
			w.runAs(theirs, "web")
			w.look()
		}},
		"another kubelet": {36, func(w *world, theirs types.UID) {
			w.runAs(theirs, "web")
			w.finder.look(w.sandboxes)
			w.decode(0, original, "1")
			w.decode(0, backup, "1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				theirs := w.decode(test.minor, backup, "1")
				test.live(w, theirs)
				for _, version := range []string{"1", "2", "3"} {
					w.decode(0, original, version) // an edit: the copy is not decoded again
					for range 3 {
						pass(settles)
						w.finder.decide()
						if got, want := w.decode(0, original, version), w.decode(test.minor, original, version); got != want {
							t.Fatalf("version %s has UID %s, want %s; the kubelet runs %s of the copy", version, got, want, theirs)
						}
					}
				}
				status := v1alpha1.Status{Kubelet: w.finder.Status(), Sources: []v1alpha1.SourceStatus{{Name: "http"}, {File: &v1alpha1.FileStatus{Manifests: []v1alpha1.Manifest{
					{Path: original, State: v1alpha1.ManifestAccepted, Namespace: "default", Name: "web-node1", UID: string(w.decode(0, original, "3"))},
					{Path: backup, State: v1alpha1.ManifestShadowed, Namespace: "default", Name: "web-node1", UID: string(theirs)},
				}}}}}
				w.finder.Compare(&status)
				manifests := status.Sources[1].File.Manifests
				if status.Kubelet.OtherUIDs != 0 || !strings.Contains(status.Kubelet.Detail, "the kubelet runs default/web-node1 of web.yaml.backup") ||
					len(manifests[0].Warnings) != 0 || len(manifests[1].Warnings) != 1 {
					t.Errorf("%+v, %+v", status.Kubelet, manifests)
				}
			})
		})
	}
}

// If files are ignored, or if two files give the pod, a UID that no rules give is not adopted: it can be that of another file.
func TestNoUIDOfAnotherFileIsAdopted(t *testing.T) {
	for name, test := range map[string]struct {
		live   func(w *world)
		adopts bool
	}{
		"one file":  {func(*world) {}, true},
		"ignored":   {func(w *world) { w.finder.SetIgnoring(true) }, false},
		"two files": {func(w *world) { w.decode(0, backup, "1") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.runAs("odd", "web")
				w.finder.look(w.sandboxes)
				w.decode(0, original, "1")
				test.live(w)
				pass(settles)
				w.finder.decide()
				if got := w.decode(0, original, "1"); (got == "odd") != test.adopts {
					t.Errorf("UID %s", got)
				}
			})
		})
	}
}
