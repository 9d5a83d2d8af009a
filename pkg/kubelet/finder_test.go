package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node with static pods in files, and the sandboxes that a kubelet runs.
type world struct {
	t         *testing.T
	opts      Options
	finder    *Finder
	decoder   *manifest.Decoder
	sandboxes []*pleg.Pod
	current   manifest.Minor // of the kubelet in randomUpgrades
	clock     time.Time
	ids       int
	memory    *Memory
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.opts = Options{
		Presence: PresenceNo,
		List:     func(context.Context) ([]*pleg.Pod, error) { return w.sandboxes, nil },
		Remember: func(m Memory) error { w.memory = &m; return nil },
	}
	w.start()
	return w
}

// start starts podconfigd, which reads its manifests after it asked the runtime.
func (w *world) start(pods ...string) {
	w.decoder = manifest.NewDecoder("node1")
	w.opts.Decoder = w.decoder
	w.finder = New(w.opts)
	w.finder.Ask(w.t.Context())
	w.read(pods...)
}

// restart starts it again, with what it remembered.
func (w *world) restart(pods ...string) {
	w.finder.remember(w.t.Context())
	w.opts.Remembered = w.memory
	w.start(pods...)
}

func data(name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: i}]}\n", name)
}

func path(name string) string { return "/manifests/" + name + ".yaml" }

// read decodes manifests as a source does: again, as long as the rules change.
func (w *world) read(names ...string) {
	w.t.Helper()
	for range 10 {
		changed := w.decoder.Changed()
		for _, name := range names {
			if _, _, err := w.decoder.DecodeFile(path(name), data(name)); err != nil {
				w.t.Fatal(err)
			}
		}
		select {
		case <-changed:
		default:
			return
		}
	}
	w.t.Fatal("the rules change at each reading")
}

// run makes a kubelet of a minor run a sandbox of a pod.
func (w *world) run(m manifest.Minor, name string) {
	w.t.Helper()
	pod, _, err := manifest.NewDecoder("node1").For(m).DecodeFile(path(name), data(name))
	if err != nil {
		w.t.Fatal(err)
	}
	w.runAs(pod.UID, name)
}

func (w *world) runAs(uid types.UID, name string) {
	w.clock = w.clock.Add(time.Second)
	w.ids++
	w.sandboxes = append(w.sandboxes, &pleg.Pod{
		UID: uid, Namespace: "default", Name: name + "-node1", Source: config.FileSource,
		Containers: []pleg.Container{{ID: fmt.Sprint(w.ids), Sandbox: true, State: pleg.StateRunning, CreatedAt: w.clock}},
	})
}

// look looks at the sandboxes as Run does, and reads the manifests again if that is necessary.
func (w *world) look(names ...string) {
	w.t.Helper()
	if w.finder.look(w.sandboxes) {
		w.read(names...)
	}
}

func (w *world) want(m manifest.Minor, source Source) {
	w.t.Helper()
	s := w.finder.Status()
	if w.decoder.Minor() != m || s.Rules != m.String() || s.Source != string(source) {
		w.t.Errorf("rules of %v, status %+v, want %v by %s", w.decoder.Minor(), s, m, source)
	}
}

func TestNothingIsKnown(t *testing.T) {
	w := newWorld(t)
	w.read("web")
	w.want(manifest.Base, SourceBase)
	if w.memory == nil || w.memory.Version != manifest.Base.String() { // another release has another base
		t.Errorf("remembered %+v", w.memory)
	}
	w.restart("web")
	w.want(manifest.Base, SourceState)
}

// Without sandboxes, the first sets wait for the Node, for at most a second.
func TestAskForTheNode(t *testing.T) {
	for _, test := range []struct {
		node  string
		after time.Duration
		hangs bool
		want  manifest.Minor
		waits time.Duration
	}{
		{"v1.34.4", 100 * time.Millisecond, false, 34, 100 * time.Millisecond},
		{"", 100 * time.Millisecond, false, manifest.Base, 100 * time.Millisecond}, // there is no Node
		{"v1.34.4", time.Hour, false, manifest.Base, AskTimeout},
		{"v1.34.4", time.Hour, true, manifest.Base, AskTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.opts.Node, w.opts.Decoder = true, manifest.NewDecoder("node1")
			w.opts.List = func(ctx context.Context) ([]*pleg.Pod, error) {
				if test.hangs {
					<-ctx.Done()
				}
				return nil, ctx.Err()
			}
			f, began := New(w.opts), time.Now()
			timer := time.AfterFunc(test.after, func() { f.SetNode(test.node) })
			f.Ask(t.Context())
			if took := time.Since(began); took != test.waits || w.opts.Decoder.Minor() != test.want {
				t.Errorf("%+v: rules of %v after %v", test, w.opts.Decoder.Minor(), took)
			}
			timer.Stop()
		})
	}
}

// Each minor is found by the sandboxes that run when podconfigd starts.
func TestSandboxes(t *testing.T) {
	for _, m := range manifest.Minors() {
		w := newWorld(t)
		w.run(m, "web")
		w.start("api", "web")
		w.want(m, SourceSandboxes)
		if others := w.finder.Others(); len(others) > 0 {
			t.Errorf("%v: other UIDs %v", m, others)
		}
	}
}

// A kubelet is upgraded and rolled back while podconfigd runs. Old sandboxes stand beside new ones, the
// Node has the old version for a while, and the newest pod is removed: nothing flaps.
func TestUpgrade(t *testing.T) {
	w := newWorld(t)
	w.run(34, "web")
	w.run(34, "api")
	w.start("web", "api")
	w.finder.SetNode("v1.34.4")
	w.want(34, SourceSandboxes)
	for _, m := range []manifest.Minor{36, 37, 34} {
		w.run(m, "api")
		w.look("web", "api")
		w.want(m, SourceSandboxes)
		w.look("web", "api")
		w.finder.SetNode("v1.34.4")
		w.want(m, SourceSandboxes)
		newest := w.sandboxes[len(w.sandboxes)-1]
		w.sandboxes = w.sandboxes[:len(w.sandboxes)-1]
		w.look("web", "api")
		w.read("web", "api")
		w.want(m, SourceSandboxes)
		w.restart("web", "api") // the old ones are still there
		if got := w.decoder.Minor(); got != m {
			t.Errorf("after a restart, the rules of %v, want %v", got, m)
		}
		w.sandboxes = append(w.sandboxes, newest)
		w.look("web", "api")
		if others := w.finder.Others(); len(others) > 0 {
			t.Errorf("%v: other UIDs %v", m, others)
		}
	}
}

// The clock is set back, and the kubelet is upgraded while podconfigd is down. The old sandboxes may still be there.
func TestClockSetBack(t *testing.T) {
	for _, gone := range []bool{false, true} {
		w := newWorld(t)
		w.run(34, "web")
		w.run(34, "api")
		w.start("web", "api")
		w.clock = w.clock.Add(-time.Hour)
		if gone {
			w.sandboxes = nil
		}
		w.run(37, "web")
		for range 3 {
			w.restart("web", "api")
			if got := w.decoder.Minor(); got != 37 {
				t.Errorf("old sandboxes gone: %t: the rules of %v, want 1.37", gone, got)
			}
		}
	}
}

// A runtime with very many sandboxes does not make the file grow.
func TestManySandboxes(t *testing.T) {
	w := newWorld(t)
	for i := range maxSandboxes + 10 {
		w.runAs(types.UID(fmt.Sprint(i)), "stray")
	}
	w.run(34, "web")
	w.start("web")
	w.restart("web")
	if n := len(w.memory.Sandboxes); n != maxSandboxes || w.memory.Sandboxes[n-1] != fmt.Sprint(w.ids) {
		t.Errorf("%d sandboxes are remembered", n)
	}
}

// What is remembered before a new sandbox is identified does not take it for an old one.
func TestEndsBeforeASandboxIsIdentified(t *testing.T) {
	w := newWorld(t)
	w.run(34, "web")
	w.start("web")
	w.run(37, "web")
	w.finder.look(w.sandboxes)
	w.restart("web")
	w.want(37, SourceSandboxes)
}

// An upgrade while podconfigd is down is found at its start.
func TestUpgradeWhileDown(t *testing.T) {
	w := newWorld(t)
	w.run(34, "web")
	w.start("web")
	w.run(37, "web")
	w.restart("web")
	w.want(37, SourceSandboxes)
}

// Without a kubelet, the version is the one that is remembered. A sandbox that was not there is newer.
func TestMemory(t *testing.T) {
	w := newWorld(t)
	w.run(35, "web")
	w.start("web")
	before := w.sandboxes
	w.sandboxes = nil
	w.restart("web")
	w.want(35, SourceState)
	w.restart("web")
	w.want(35, SourceState)

	w.clock = w.clock.Add(-time.Hour) // the clock of the board is behind
	w.run(36, "web")
	w.restart("web")
	w.want(36, SourceSandboxes)

	w.opts.Version = "1.33"
	w.sandboxes = before
	w.restart("web")
	w.want(33, SourceFlag)
}

func TestNode(t *testing.T) {
	w := newWorld(t)
	w.read("web")
	w.finder.SetNode("nonsense")
	w.want(manifest.Base, SourceBase)
	w.finder.SetNode("v1.34.4")
	w.want(34, SourceNode)
	w.finder.SetNode("v1.35.0")
	w.want(35, SourceNode)
	if got := w.finder.Status().Version; got != "v1.35.0" {
		t.Errorf("version %s", got)
	}
	w.run(36, "web") // the kubelet that runs has not written it yet
	w.look("web")
	w.want(36, SourceSandboxes)
	w.finder.SetNode("v1.36.1")
	w.want(36, SourceSandboxes)
	if got := w.finder.Status().Version; got != "v1.36.1" {
		t.Errorf("version %s", got)
	}
	w.finder.SetNode("v1.38.1") // a kubelet of an unknown minor starts
	w.want(36, SourceSandboxes)
	w.finder.decide()
	w.want(36, SourceSandboxes)
	w.sandboxes = nil
	w.runAs("of-1.38", "web")
	w.look("web")
	w.finder.decide()
	w.want(manifest.Base, SourceNode)
	if s := w.finder.Status(); s.Version != "v1.38.1" || s.Detail == "" {
		t.Errorf("%+v", s)
	}
}

// A Node that is older than it was does not change the UIDs of what runs.
func TestOldNode(t *testing.T) {
	w := newWorld(t)
	w.run(36, "web")
	w.start("web")
	for _, version := range []string{"v1.36.3", "v1.34.4", "v1.36.3", "v1.34.4"} { // two apiservers, one of them behind
		w.finder.SetNode(version)
		w.finder.decide()
		w.read("web")
		w.want(36, SourceSandboxes)
		w.restart("web")
		w.want(36, SourceSandboxes)
		w.finder.SetNode("v1.36.2")
	}
}

// The version in the Node that was there before the restart says nothing new.
func TestNodeAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.run(36, "web")
	w.start("web")
	w.finder.SetNode("v1.34.4")
	w.sandboxes = nil
	w.restart("web")
	w.finder.SetNode("v1.34.4")
	w.want(36, SourceState)
	w.restart("web") // it ends before the Node is known
	w.restart("web")
	w.finder.SetNode("v1.34.4")
	w.want(36, SourceState)
	w.restart("web")
	w.finder.SetNode("v1.35.4")
	w.want(35, SourceNode)
}

func TestMirrorPods(t *testing.T) {
	w := newWorld(t)
	w.read("web")
	mirror := func(m manifest.Minor, uid types.UID) *v1.Pod {
		pod, _, err := manifest.NewDecoder("node1").For(m).DecodeFile(path("web"), data("web"))
		if err != nil {
			t.Fatal(err)
		}
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-node1", UID: uid, CreationTimestamp: metav1.Time{Time: time.Unix(int64(m), 0)}, Annotations: map[string]string{v1.MirrorPodAnnotationKey: string(pod.UID)},
		}}
	}
	own := mirror(33, "own")
	own.Annotations[config.OwnMirrorAnnotationKey] = ""
	w.finder.MirrorPod(own, false)
	w.read("web")
	w.want(manifest.Base, SourceBase)

	changed := w.decoder.Changed()
	w.finder.MirrorPod(mirror(34, "1"), false)
	<-changed
	w.read("web")
	w.want(34, SourceMirrorPods)
	w.finder.MirrorPod(mirror(34, "1"), true)
	w.finder.MirrorPod(mirror(35, "2"), false)
	w.read("web")
	w.want(35, SourceMirrorPods)
	w.run(36, "web") // what runs is better evidence
	w.look("web")
	w.want(36, SourceSandboxes)
}

// uid returns the UID that podconfigd gives a pod now.
func (w *world) uid(name string) types.UID {
	w.t.Helper()
	pod, _, err := w.decoder.DecodeFile(path(name), data(name))
	if err != nil {
		w.t.Fatal(err)
	}
	if hash := pod.Annotations["kubernetes.io/config.hash"]; hash != string(pod.UID) {
		w.t.Errorf("config.hash is %s, the UID %s", hash, pod.UID)
	}
	return pod.UID
}

// The UIDs of a kubelet that no rules give are taken from its sandboxes, for all pods of the node or for
// none. The status says so.
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

	// A new sandbox of a kubelet that is known.
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

// A sandbox of an earlier version of the manifest is not that of the new one.
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

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
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

// counting counts how often the UID of a pod is looked for in the rules of the other minors.
type counting struct {
	*Finder
	identified int
}

func (c *counting) Identified(name types.NamespacedName, running types.UID, by manifest.Minor) bool {
	c.identified++
	return c.Finder.Identified(name, running, by)
}

// A pod that is edited costs nothing more beside the sandbox of the version before.
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

// Mirror pods that a kubelet left behind do not show that there is one.
func TestMirrorPodsOfALostKubelet(t *testing.T) {
	f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
	f.probe(t.Context())
	mirror := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node1", UID: "1", Annotations: map[string]string{v1.MirrorPodAnnotationKey: "u"}}}
	f.MirrorPod(mirror, false)
	for _, ready := range []*v1.NodeCondition{
		nil, {Status: v1.ConditionTrue}, {Status: v1.ConditionUnknown, LastHeartbeatTime: metav1.Now()}, {Status: v1.ConditionFalse},
	} {
		f.SetReady(ready)
		if lost := ready != nil && ready.Status == v1.ConditionUnknown; f.Present() == lost {
			t.Errorf("the Node says %v: present %t", ready, f.Present())
		}
	}
}

// The Node shows a kubelet without static pods whose health check has another port, as long as it writes its conditions.
func TestPresenceByTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: PresenceAuto})
		f.probe(t.Context())
		written := metav1.Now()
		for _, test := range []struct {
			ready *v1.NodeCondition
			want  bool
		}{
			{nil, false},
			{&v1.NodeCondition{Status: v1.ConditionTrue, LastHeartbeatTime: written}, true},
			{&v1.NodeCondition{Status: v1.ConditionFalse, LastHeartbeatTime: written}, true},
			{&v1.NodeCondition{Status: v1.ConditionTrue}, false}, // no kubelet wrote it
			{&v1.NodeCondition{Status: v1.ConditionUnknown, LastHeartbeatTime: written}, false},
			{&v1.NodeCondition{Status: v1.ConditionTrue, LastHeartbeatTime: written}, true},
		} {
			if f.SetReady(test.ready); f.Present() != test.want {
				t.Errorf("%+v: present %t", test.ready, !test.want)
			}
		}
		if pass(heartbeatAfter); f.Present() {
			t.Error("a kubelet that no longer writes its conditions is present")
		}
	})
}

func TestPresence(t *testing.T) {
	healthz := httptest.NewServer(http.NotFoundHandler())
	defer healthz.Close()
	for _, test := range []struct {
		presence Presence
		url      string
		want     bool
	}{
		{PresenceAuto, healthz.URL, true},
		{PresenceAuto, "http://127.0.0.1:1/healthz", false},
		{PresenceYes, "http://127.0.0.1:1/healthz", true},
		{PresenceNo, healthz.URL, false},
	} {
		f := New(Options{Decoder: manifest.NewDecoder("node1"), Presence: test.presence, HealthzURL: test.url})
		if test.presence == PresenceAuto && !f.Present() {
			t.Error("before it was asked, the kubelet counts as absent")
		}
		f.probe(t.Context())
		if got := f.Present(); got != test.want {
			t.Errorf("%+v: present %t", test, got)
		}
	}
}

// Run reads again when the runtime has changed, and remembers what it found.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.read("web")
		w.opts.Pods = func() ([]*pleg.Pod, bool) { return w.sandboxes, true }
		w.finder.opts.Pods = w.opts.Pods
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.finder.Run(ctx) }()
		synctest.Wait()
		w.run(34, "web")
		changed := w.decoder.Changed()
		w.finder.Notice()
		<-changed
		w.read("web")
		synctest.Wait()
		w.want(34, SourceSandboxes)
		if w.memory == nil || w.memory.Version != "1.34" || len(w.memory.Sandboxes) != 1 {
			t.Errorf("remembered %+v", w.memory)
		}
		cancel()
		<-done
	})
}

// statics makes the Pods API of a kubelet of a minor have pods; none without names.
func (w *world) statics(m manifest.Minor, names ...string) {
	w.t.Helper()
	var uids map[types.NamespacedName]types.UID
	for _, name := range names {
		pod, _, err := manifest.NewDecoder("node1").For(m).DecodeFile(path(name), data(name))
		if err != nil {
			w.t.Fatal(err)
		}
		if uids == nil {
			uids = make(map[types.NamespacedName]types.UID)
		}
		uids[types.NamespacedName{Namespace: "default", Name: name + "-node1"}] = pod.UID
	}
	w.opts.Statics = func() map[types.NamespacedName]types.UID { return uids }
	w.finder.opts.Statics = w.opts.Statics
}

// Each minor is found by its Pods API alone, without a runtime.
func TestPodsAPI(t *testing.T) {
	for _, m := range manifest.Minors() {
		w := newWorld(t)
		w.opts.List, w.opts.Presence = nil, PresenceAuto
		w.statics(m, "web")
		w.start("api", "web")
		w.want(m, SourcePodsAPI)
		if s := w.finder.Status(); !s.Present || s.OtherUIDs > 0 {
			t.Errorf("%v: %+v", m, s)
		}
	}
}

// A kubelet is upgraded to one with a Pods API, which shows the new UIDs before the new sandboxes run, and rolled back to
// one without.
func TestUpgradeToAPodsAPI(t *testing.T) {
	w := newWorld(t)
	w.run(34, "web")
	w.start("web")
	w.want(34, SourceSandboxes)
	w.statics(37, "web")
	w.look("web")
	w.want(37, SourcePodsAPI)
	w.run(37, "web")
	w.look("web")
	w.want(37, SourcePodsAPI)
	w.statics(37)
	w.look("web")
	if got := w.decoder.Minor(); got != 37 {
		t.Errorf("while the kubelet is away: %v", got)
	}
	w.run(34, "web")
	w.look("web")
	w.want(34, SourceSandboxes)
}
