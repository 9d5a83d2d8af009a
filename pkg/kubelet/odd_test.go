package kubelet

import (
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// If no rules give the UIDs of a kubelet, podconfigd takes them from its sandboxes, for all pods of the
// node or for none. The status says so.
func TestOddUIDs(t *testing.T) { synctest.Test(t, testOddUIDs) }

func testOddUIDs(t *testing.T) {
	w := newWorld(t)
	w.runAs("odd", "web")
	w.runAs("odd-api", "api")
	w.start("web", "api")
	w.want(manifest.Base, SourceBase)
	if s := w.finder.Status(); s.OtherUIDs != 2 || s.Detail == "" {
		t.Errorf("%+v", s)
	}
	if w.finder.decide() || w.uid("web") == "odd" {
		t.Error("the UIDs are adopted before the other manifests may be read")
	}
	pass(oddAfter)
	if !w.finder.decide() || w.uid("web") != "odd" || w.uid("api") != "odd-api" || w.finder.decide() {
		t.Errorf("UIDs %s and %s", w.uid("web"), w.uid("api"))
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

// A sandbox of an earlier version of the manifest does not belong to the new version.
func TestOddUIDOfAnEdit(t *testing.T) { synctest.Test(t, testOddUIDOfAnEdit) }

func testOddUIDOfAnEdit(t *testing.T) {
	w := newWorld(t)
	w.runAs("odd", "web")
	w.start("web")
	w.finder.decide()
	pass(oddAfter)
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
	pass(oddAfter)
	w.finder.decide()
	w.read("web", "api")
	w.opts.Restored = map[types.UID]bool{"odd": true, "odd-api": true}
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
		w.opts.Restored = map[types.UID]bool{"of-the-version-before": true}
		w.sandboxes = nil
		w.runAs("of-the-version-before", "web")
		w.restart("web")
		w.finder.decide()
		pass(oddAfter)
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
