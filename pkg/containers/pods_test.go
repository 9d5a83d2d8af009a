package containers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// A runtime can have an ID for another container than before. It has nothing of the pod before, which changes it no more.
func TestAContainerOfAnotherPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deliver(config.ADD, "api", pod("a"))
		w.pids["a-x"] = 7
		w.devices["x"] = &v1alpha1.ContainerResources{Devices: []v1alpha1.Devices{{Resource: "gpu", IDs: []string{"0"}}}}
		w.set("a/x running")
		s := w.watch(nil, WatchOptions{})
		s.expect("ADD api a/x running 7 [{gpu [0] []}]; BOOKMARK complete")
		delete(w.devices, "x")
		moved := pleg.Found{UID: "b", Namespace: "default", Name: "b", Container: pleg.Container{ID: "a-x", Name: "x", State: pleg.StateCreated}}
		w.found(moved)
		s.expect("UPDATE - b/x created")
		w.deliver(config.UPDATE, "api", pod("a=2"))
		s.expect("")
		moved.Ended = time.Now()
		w.found(moved)
		s.expect("REMOVE - b/x created")
		w.deliver(config.UPDATE, "api", pod("a=3"))
		s.expect("")
		if n := len(w.stream.recording.pods); n > 0 {
			t.Errorf("it still has the containers of %d pods", n)
		}
	})
}

// The containers of a pod that ended keep its source, labels and owners, also those of which a subscriber hears only then.
func TestContainersOfAPodThatEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		all := WatchOptions{Labels: true, Owners: true}
		s := w.watch(nil, all)
		s.expect("BOOKMARK complete")
		w.deliver(config.ADD, "file", pod("web=1"))
		w.set("web/app running")
		s.expect("ADD file web/app running image=1 of web")
		w.deliver(config.REMOVE, "file", pod("web=1"))
		s.expect("")
		w.set("web/app exited")
		s.expect("UPDATE file web/app exited image=1 of web")
		w.stream.Restart()
		synctest.Wait()
		s.expect("BOOKMARK reset: the access rules changed; ADD file web/app exited image=1 of web; BOOKMARK complete")
		w.set("web/app removed")
		s.expect("REMOVE file web/app exited image=1 of web")
	})
}
