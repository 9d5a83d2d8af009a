package kubelet

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// settles is how long a sandbox may be that of an earlier version of a manifest with the default grace period.
const settles = 30*time.Second + replaced

// If no rules give the UIDs of a kubelet, podconfigd takes them from its sandboxes, for all pods of the
// node or for none. The status says so.
func TestOddUIDs(t *testing.T) { synctest.Test(t, testOddUIDs) }

func testOddUIDs(t *testing.T) {
	w := newWorld(t)
	w.runAs("odd", "web")
	w.runAs("odd-api", "api")
	w.start("web", "api")
	w.want(manifest.Base, SourceBase)
	pass(settles - time.Second)
	if s := w.finder.Status(); s.OtherUIDs != 0 || s.Detail != "" {
		t.Errorf("an edit would be a problem: %+v", s)
	}
	if w.finder.decide() || w.uid("web") == "odd" {
		t.Error("the UIDs are adopted, although the manifests may have been edited")
	}
	pass(settles)
	if !w.finder.decide() || w.uid("web") != "odd" || w.uid("api") != "odd-api" || w.finder.decide() {
		t.Errorf("UIDs %s and %s", w.uid("web"), w.uid("api"))
	}
	if s := w.finder.Status(); s.OtherUIDs != 2 || !strings.Contains(s.Detail, "--pod-manifest-path") {
		t.Errorf("%+v", s)
	}
	if w.finder.look(w.sandboxes) {
		t.Error("the same sandbox is identified again")
	}
	w.restart("web", "api") // adopted from the first set on
	if w.uid("web") != "odd" {
		t.Errorf("after a restart, the UID is %s", w.uid("web"))
	}
	w.runAs("stray", "no-manifest")
	if w.finder.look(w.sandboxes) {
		t.Error("a sandbox without a manifest is identified")
	}

	// A kubelet of a known version starts a sandbox.
	w.run(36, "api")
	w.look("web", "api")
	if !w.finder.decide() {
		t.Error("the UIDs are still taken from the sandboxes")
	}
	w.want(36, SourceSandboxes)
	if w.uid("web") == "odd" {
		t.Error("a UID is still taken from a sandbox")
	}
}

// All static pods are edited before podconfigd starts for the first time beside a kubelet. Their old sandboxes end within
// the grace period. No pod gets the UID of the version before.
func TestEditedBeforeTheFirstStart(t *testing.T) {
	for name, test := range map[string]struct {
		grace   int // of the pod, in seconds
		lasts   time.Duration
		version string
		same    bool // the kubelet starts another sandbox of the version before
	}{
		"default grace":      {30, 30 * time.Second, Auto, false},
		"noticed late":       {30, 55 * time.Second, Auto, false},
		"long grace":         {300, 300 * time.Second, Auto, false},
		"no grace":           {0, 30 * time.Second, Auto, false}, // of the new version
		"a restart before":   {30, 30 * time.Second, Auto, true},
		"configured version": {30, 30 * time.Second, "1.36", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.opts.Version = test.version
				w.runAs("web-before", "web")
				w.runAs("api-before", "api")
				w.start()
				decode := func(pod string) types.UID {
					edited := strings.Replace(string(data(pod)), "spec: {", fmt.Sprintf("spec: {terminationGracePeriodSeconds: %d, ", test.grace), 1)
					decoded, _, err := w.decoder.DecodeFile(path(pod), []byte(edited))
					if err != nil {
						t.Fatal(err)
					}
					return decoded.UID
				}
				web, api := decode("web"), decode("api")
				check := func() {
					t.Helper()
					w.finder.look(w.sandboxes)
					if w.finder.decide(); decode("web") != web || decode("api") != api {
						t.Fatalf("UIDs %s and %s, want %s and %s", decode("web"), decode("api"), web, api)
					}
					if s := w.finder.Status(); s.OtherUIDs > 0 || s.Detail != "" {
						t.Fatalf("%+v", s)
					}
				}
				for range test.lasts / time.Second {
					check()
					pass(time.Second)
					if test.same {
						w.end("web")
						w.runAs("web-before", "web")
					}
				}
				w.end("web")
				w.runAs(web, "web")
				check()
				pass(time.Hour)
				w.end("api")
				w.runAs(api, "api")
				check()
			})
		})
	}
}

// A kubelet that runs an earlier version of one manifest for long runs the others under UIDs that are known. The advice is not
// to change the path or the node name.
func TestAnOldVersionThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(37, "api")
		w.runAs("before", "web")
		w.start("web", "api")
		pass(settles)
		w.finder.decide()
		s := w.finder.Status()
		if w.uid("web") == "before" || s.OtherUIDs != 1 || !strings.Contains(s.Detail, "earlier version") || strings.Contains(s.Detail, "--pod-manifest-path") {
			t.Errorf("UID %s: %+v", w.uid("web"), s)
		}
	})
}

// A sandbox of an earlier version of the manifest does not belong to the new version.
func TestOddUIDOfAnEdit(t *testing.T) { synctest.Test(t, testOddUIDOfAnEdit) }

func testOddUIDOfAnEdit(t *testing.T) {
	w := newWorld(t)
	w.runAs("odd", "web")
	w.start("web")
	w.finder.decide()
	pass(settles)
	w.finder.decide()
	decode := func(data string) types.UID {
		pod, _, err := w.decoder.DecodeFile(path("web"), []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return pod.UID
	}
	edited := string(data("web")) + "# edited\n"
	if got := decode(edited); got != "odd" {
		t.Errorf("a comment changes the UID to %s", got)
	}
	edited = strings.Replace(edited, "image: i", "image: j", 1)
	if got := decode(edited); got == "odd" {
		t.Error("an edited pod has the UID of the sandbox before")
	}
	w.runAs("odd-2", "web")
	if !w.finder.look(w.sandboxes) {
		t.Error("the new sandbox is not identified")
	}
	if got := decode(edited); got != "odd-2" {
		t.Errorf("the edited pod has UID %s", got)
	}
}

// A manifest is edited while podconfigd is down, and the sandbox of the version before still runs under a UID that no
// rules give. The edited pod does not get that UID. It gets that of its own sandbox.
func TestOddUIDOfAnEditWhileDown(t *testing.T) { synctest.Test(t, testOddUIDOfAnEditWhileDown) }

func testOddUIDOfAnEditWhileDown(t *testing.T) {
	w := newWorld(t)
	w.runAs("odd", "web")
	w.runAs("odd-api", "api")
	w.start("web", "api")
	w.finder.decide()
	pass(settles)
	w.finder.decide()
	w.read("web", "api")
	w.opts.Restored = map[types.UID]types.NamespacedName{"odd": {}, "odd-api": {}}
	w.restart()
	edited := []byte(strings.Replace(string(data("web")), "image: i", "image: j", 1))
	decode := func() types.UID {
		pod, _, err := w.decoder.DecodeFile(path("web"), edited)
		if err != nil {
			t.Fatal(err)
		}
		return pod.UID
	}
	if got := decode(); got == "odd" {
		t.Error("the edited pod has the UID of the sandbox of the version before")
	}
	if got := w.uid("api"); got != "odd-api" {
		t.Errorf("the pod that was not edited has UID %s", got)
	}
	w.runAs("odd-2", "web")
	w.finder.look(w.sandboxes)
	if got := decode(); got != "odd-2" {
		t.Errorf("with a sandbox of its own, the edited pod has UID %s", got)
	}
}

// A pod that was edited while podconfigd was down still runs under the UID of the last run: that is the UID of
// the earlier version.
func TestEditedWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(37, "web")
		w.opts.Restored = map[types.UID]types.NamespacedName{"of-the-version-before": {}}
		w.sandboxes = nil
		w.runAs("of-the-version-before", "web")
		w.restart("web")
		w.finder.decide()
		pass(settles)
		if w.finder.decide() || w.uid("web") == "of-the-version-before" {
			t.Error("the edited pod has the UID of the version before")
		}
		if others := w.finder.Others(); len(others) > 0 {
			t.Errorf("other UIDs %v", others)
		}
	})
}

// counting counts how often the decoder looks for the UID of a pod in the rules of the other minors.
type counting struct {
	*Finder
	identified int
}

func (c *counting) Identified(name types.NamespacedName, running types.UID, by manifest.Minor) bool {
	c.identified++
	return c.Finder.Identified(name, running, by)
}

// An edited pod costs nothing more while the sandbox of its earlier version still runs.
func TestAnEditIdentifiesNothing(t *testing.T) {
	w := newWorld(t)
	w.run(37, "web")
	w.start("web")
	count := &counting{Finder: w.finder}
	w.decoder.Compare(count)
	edited := strings.Replace(string(data("web")), "image: i", "image: j", 1)
	if _, _, err := w.decoder.DecodeFile(path("web"), []byte(edited)); err != nil || count.identified > 0 {
		t.Errorf("identified %d times, %v", count.identified, err)
	}
}

// A manifest whose pod has the UID of an odd kubelet is renamed. Its pod has the new UID of that kubelet once no edit explains it.
func TestOddUIDOfARenamedManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const before, after = "/manifests/a.yaml", "/manifests/b.yaml"
		there := before
		w.opts.stat = func(file string) (fs.FileInfo, error) {
			if file != there {
				return nil, fs.ErrNotExist
			}
			return nil, nil
		}
		w.start()
		w.runAs("odd", "web")
		w.finder.look(w.sandboxes)
		w.decode(0, before, "1")
		w.decide(before, "odd")
		there = after
		w.decode(0, after, "1")
		w.sandboxes = nil
		w.runAs("odd-too", "web")
		w.finder.look(w.sandboxes)
		w.decide(after, "odd-too")
	})
}

// decide checks the UID that the pod web in a file has when no edit explains that of the kubelet.
func (w *world) decide(file string, want types.UID) {
	w.t.Helper()
	w.decode(0, file, "1")
	pass(settles)
	w.finder.decide()
	if got := w.decode(0, file, "1"); got != want {
		w.t.Errorf("UID %s, want %s", got, want)
	}
}
