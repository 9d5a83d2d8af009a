package kubelet

import (
	"context"
	"fmt"
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
	for name, test := range map[string]struct {
		node  string
		after time.Duration
		hangs bool
		want  manifest.Minor
		waits time.Duration
	}{
		"soon":            {"v1.34.4", 100 * time.Millisecond, false, 34, 100 * time.Millisecond},
		"no Node":         {"", 100 * time.Millisecond, false, manifest.Base, 100 * time.Millisecond},
		"late":            {"v1.34.4", time.Hour, false, manifest.Base, AskTimeout},
		"hanging runtime": {"v1.34.4", time.Hour, true, manifest.Base, AskTimeout},
	} {
		t.Run(name, func(t *testing.T) {
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
		})
	}
}

// Each minor is found by the sandboxes that run when podconfigd starts.
func TestSandboxes(t *testing.T) {
	for m := manifest.Oldest; m <= manifest.Base; m++ {
		t.Run(m.String(), func(t *testing.T) {
			w := newWorld(t)
			w.run(m, "web")
			w.start("api", "web")
			w.want(m, SourceSandboxes)
			if others := w.finder.Others(); len(others) > 0 {
				t.Errorf("%v: other UIDs %v", m, others)
			}
		})
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

// A restart before a new sandbox is identified does not make it an old one.
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

// If nothing but the pods of the last run is known, their UIDs show the version.
func TestRestoredPods(t *testing.T) {
	for m := manifest.Oldest; m <= manifest.Base; m++ {
		t.Run(m.String(), func(t *testing.T) {
			w := newWorld(t)
			w.memory = nil
			w.opts.Restored = map[types.UID]types.NamespacedName{"of-an-earlier-version": {Namespace: "default", Name: "api-node1"}}
			for _, name := range []string{"web", "dns", "gone"} {
				pod, _, err := manifest.NewDecoder("node1").For(m).DecodeFile(path(name), data(name))
				if err != nil {
					t.Fatal(err)
				}
				w.opts.Restored[pod.UID] = types.NamespacedName{Namespace: "default", Name: pod.Name}
			}
			w.start()
			if w.memory != nil {
				t.Errorf("before the manifests are read, %+v is remembered", w.memory)
			}
			w.read("api", "dns", "web")
			w.want(m, SourceState)
			if _, same := w.opts.Restored[w.uid("web")]; !same {
				t.Errorf("web has UID %s", w.uid("web"))
			}
			w.restart("web")
			if w.want(m, SourceState); w.memory.Version != m.String() {
				t.Errorf("%+v is remembered", w.memory)
			}
			other := manifest.Minor(35)
			if m == other {
				other = 36
			}
			w.run(other, "web") // what runs is better evidence
			w.look("web")
			w.want(other, SourceSandboxes)
		})
	}
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
		}, Status: v1.PodStatus{StartTime: new(metav1.Now())}}
	}
	for _, mark := range []string{"", config.AdoptedMirror} { // podconfigd wrote the status, and everybody can write managedFields
		own := mirror(33, "own")
		own.Annotations[config.OwnMirrorAnnotationKey] = mark
		w.finder.MirrorPod(own, false)
		w.read("web")
		w.want(manifest.Base, SourceBase)
	}

	created := mirror(34, "1")
	created.Status.StartTime = nil // everybody can create it
	w.finder.MirrorPod(created, false)
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

// Each minor is found by its Pods API alone, without a runtime.
func TestPodsAPI(t *testing.T) {
	for m := manifest.Oldest; m <= manifest.Base; m++ {
		t.Run(m.String(), func(t *testing.T) {
			w := newWorld(t)
			w.opts.List, w.opts.Presence = nil, PresenceAuto
			w.statics(m, "web")
			w.start("api", "web")
			w.want(m, SourcePodsAPI)
			if s := w.finder.Status(); !s.Present || s.OtherUIDs > 0 {
				t.Errorf("%v: %+v", m, s)
			}
		})
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
