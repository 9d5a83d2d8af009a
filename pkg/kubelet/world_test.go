package kubelet

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

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
		Remember: func(m *Memory) { w.memory = m },
		stat:     func(string) (fs.FileInfo, error) { return nil, nil },
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
	w.finder.remember()
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

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time
	synctest.Wait()
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
