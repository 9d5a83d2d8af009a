package containers

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
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

// Everybody who may create pods can give them long labels, and change them again and again.
func TestLongLabelsOfContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		const changes, size = 200, 1 << 20
		w.set("web/app created")
		s := w.watch(nil, WatchOptions{})
		s.expect("ADD - web/app created; BOOKMARK complete")
		first, lines := s.since(), w.watch(nil, WatchOptions{Labels: true})
		lines.read()
		var near WatchOptions
		for i := range changes {
			w.deliver(config.ADD, "api", pod("web", podtest.Label("long", fmt.Sprint(i, strings.Repeat("x", size)))))
			if n := len(lines.read()); n != 1 {
				t.Fatalf("change %d: %d lines", i, n)
			}
			if i == changes-10 {
				near = lines.since()
			}
		}
		if n := len(w.stream.recording.changes); n*size > 2*maxBytes {
			t.Errorf("%d changes are kept", n)
		}
		resumed := w.watch(nil, near)
		resumed.held["web-app"] = ""
		if n := len(resumed.read()); n != 9 {
			t.Errorf("%d lines", n)
		}
		if got := w.watch(nil, first).read(); len(got) != 3 || !strings.HasPrefix(got[0], "BOOKMARK reset: the changes after revision") {
			t.Errorf("%.200q", got)
		}
	})
}

// With the mirror pod alone, a container has the UID of the static pod, which the runtime has. It is selected by this UID.
func TestContainersOfAMirrorPod(t *testing.T) {
	inWorld(t, func(w *world) {
		mirror := pod("web", podtest.UID("mirror"))
		mirror.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "web"}
		w.deliver(config.ADD, "api", mirror)
		w.set("web/app created")
		of := func(uid string) string {
			list, err := w.stream.List(w.t.Context(), nil, WatchOptions{Selector: view.Selector{Fields: fields.OneTermEqualSelector("metadata.uid", uid)}})
			if err != nil || len(list.Containers) == 0 {
				return fmt.Sprint(err)
			}
			return list.Containers[0].Pod.UID
		}
		if with, without := of("web"), of("mirror"); with != "web" || without != "<nil>" {
			t.Errorf("%s, %s", with, without)
		}
	})
}

// When only the mirror pod of a static pod is left, the container is one of the source api, as its pod is on the stream of pods.
func TestContainersOfAMirrorPodThatIsLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		mirror := pod("web", podtest.UID("mirror"), podtest.Annotation(v1.MirrorPodAnnotationKey, "web"))
		w.deliver(config.ADD, "file", pod("web"))
		w.deliver(config.ADD, "api", mirror)
		w.set("web/app running")
		all := w.watch(nil, WatchOptions{})
		files := w.watch(nil, WatchOptions{Selector: view.Selector{Source: "file"}})
		all.expect("ADD file web/app running; BOOKMARK complete")
		files.expect("ADD file web/app running; BOOKMARK complete")
		w.deliver(config.REMOVE, "file", pod("web"))
		all.expect("UPDATE api web/app running")
		files.expect("REMOVE file web/app running")
		w.deliver(config.REMOVE, "api", mirror)
		w.set("web/app exited")
		all.expect("UPDATE api web/app exited")
		files.expect("")
	})
}
