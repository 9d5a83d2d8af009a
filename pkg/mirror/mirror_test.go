package mirror

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

const second = time.Second

func TestAMirrorPodForEachStaticPod(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.expect(second) // the mirror pods of the apiserver are not known
		w.seen("api")
		w.expect(second, "create a")
		made := w.pods["a"]
		if made.Annotations[v1.MirrorPodAnnotationKey] != "1" || made.Annotations[config.OwnMirrorAnnotationKey] == "" || made.UID == "1" ||
			made.OwnerReferences[0].UID != "node-uid" || !*made.OwnerReferences[0].Controller {
			t.Errorf("created %+v", made.ObjectMeta)
		}
		// Another version replaces it.
		w.put(config.REMOVE, "file", staticPod("a", "1", v1.PodStatus{}))
		w.put(config.ADD, "file", staticPod("a", "2", v1.PodStatus{}))
		w.expect(second, "delete a", "create a")
		// It goes only when all sources are seen.
		w.put(config.REMOVE, "file", staticPod("a", "2", v1.PodStatus{}))
		w.expect(time.Hour)
		w.seen("http")
		w.expect(second, "delete a")
		w.stopped("")
		if s := w.status(); s.Pods != 0 || s.StaticPods != 0 || len(s.Problems) != 0 {
			t.Errorf("the status is %+v", s)
		}
	})
}

// A mirror pod with a finalizer stays when it is deleted. The status says so, the log says it once, and when
// the finalizer is removed, the next mirror pod is created at once.
func TestFinalizers(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(second, "create a")
		w.change("a", func(pod *v1.Pod) { pod.Finalizers = []string{"example.com/keep"} })
		w.put(config.REMOVE, "file", staticPod("a", "1", v1.PodStatus{}))
		w.put(config.ADD, "file", staticPod("a", "2", v1.PodStatus{}))
		for _, requested := range w.wait(10 * time.Minute) {
			if requested != "delete a" {
				t.Errorf("the request %s", requested)
			}
		}
		s := w.status()
		if len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0].Message, "the apiserver keeps it until others remove its finalizers: example.com/keep") {
			t.Fatalf("the status is %+v", s)
		}
		if time.Since(s.Problems[0].Since) < 9*time.Minute {
			t.Error("it is a new problem after each attempt")
		}
		w.remove("a")
		w.expect(second, "create a")
		if s := w.status(); len(s.Problems) != 0 || s.Pods != 1 {
			t.Errorf("the status is %+v", s)
		}
	})
}

// A pod from before a restart has no say before its source is seen.
func TestRestart(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", phase(v1.PodRunning)))
		w.seen("api", "http")
		w.expect(second, "create a", "status a")
		w.stop()
		w.run()
		w.expect(time.Hour)
		if s := w.status(); s.Pods != 1 {
			t.Errorf("%d mirror pods are adopted", s.Pods)
		}
		// Killed between the deletion and the creation.
		w.stop()
		w.remove("a")
		w.run()
		w.expect(second, "create a", "status a")
		w.stopped("")
	})
}

// A renamed source has the same pods. In between, no source has them.
func TestARenamedSource(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(second, "create a")
		w.journal.HandleSourceChange(t.Context(), config.PodUpdate{Op: config.BOOKMARK, Source: "file:new", Change: config.SourceAdded, Pods: []*v1.Pod{}})
		w.journal.HandleSourceChange(t.Context(), config.PodUpdate{Op: config.REMOVE, Source: "file", Change: config.SourceRemoved, Pods: []*v1.Pod{staticPod("a", "1", v1.PodStatus{})}})
		w.expect(time.Hour)
		w.put(config.ADD, "file:new", staticPod("a", "1", v1.PodStatus{}))
		w.expect(time.Hour)
	})
}

func TestNoNodeNoMirrorPod(t *testing.T) {
	bubble(t, func(w *world) {
		w.setNode("")
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(time.Hour)
		if waiting := w.status().Waiting; !strings.Contains(waiting, "does not have the node") {
			t.Errorf("waiting: %q", waiting)
		}
		w.setNode("first")
		w.expect(second, "create a")
		// The garbage collector deletes the pods of a node that is gone, before or after that
		// is known here.
		w.remove("a")
		w.expect(second, "create a")
		w.remove("a")
		w.expect(second)
		w.stopped("another client deleted the mirror pod default/a twice within two minutes")
		w.setNode("second")
		w.expect(second, "create a")
		w.stopped("")
		if w.pods["a"] == nil || w.pods["a"].OwnerReferences[0].UID != "second" {
			t.Errorf("the mirror pod is %v", w.pods["a"])
		}
		w.setNode("third")
		w.remove("a")
		w.expect(second, "create a")
		w.stopped("")
	})
}

func TestAnotherClientDeletesMirrorPods(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.put(config.ADD, "file", staticPod("b", "2", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(second, "create a", "create b")
		w.remove("a")
		w.expect(second, "create a")
		w.remove("b") // another pod
		w.expect(2*time.Minute, "create b")
		w.remove("a") // later
		w.expect(second, "create a")
		w.stopped("")
		w.remove("a")
		w.expect(9 * time.Minute)
		w.stopped("another client deleted the mirror pod default/a twice within two minutes")
		if until := w.status().Stopped.Until; until == nil || time.Until(*until) > 2*time.Minute {
			t.Errorf("stopped until %v", until)
		}
		w.expect(2*time.Minute, "create a")
		w.stopped("")
		// The next time, it waits twice as long.
		terminate := func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
		w.change("b", terminate)
		w.expect(second, "delete b", "create b") // it does not stay in Terminating
		w.stopped("")
		w.change("b", terminate)
		w.expect(19*time.Minute, "delete b")
		w.stopped("another client deleted the mirror pod default/b")
		w.expect(2*time.Minute, "create b")
		// What is deleted because its static pod is gone does not count.
		w.put(config.REMOVE, "file", staticPod("b", "2", v1.PodStatus{}))
		w.remove("b")
		w.expect(time.Hour)
		w.stopped("")
	})
}

func TestAnotherClientCreatesMirrorPods(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", phase(v1.PodRunning)))
		w.put(config.ADD, "file", staticPod("b", "2", phase(v1.PodRunning)))
		foreign := staticPod("b", "", v1.PodStatus{})
		foreign.UID, foreign.Annotations = "foreign", map[string]string{v1.MirrorPodAnnotationKey: "old"}
		w.pods["b"] = foreign
		w.show("b")
		w.seen("http")
		w.expect(time.Hour)
		w.stopped("another client created the mirror pod default/b, so a kubelet manages this node")
		w.remove("b")
		w.expect(100 * second)
		w.stopped("default/b")
		w.expect(time.Minute, "create a", "status a", "create b", "status b")
		w.stopped("")
	})
}

func TestTheNameIsTaken(t *testing.T) {
	bubble(t, func(w *world) {
		other := staticPod("a", "", v1.PodStatus{})
		other.UID, other.Annotations = "other", nil
		w.pods["a"] = other
		w.show("a")
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.put(config.ADD, "file", staticPod("b", "2", v1.PodStatus{}))
		w.seen("http")
		w.expect(10*second, "create b")
		if s := w.status(); len(s.Problems) != 1 || s.Problems[0].Name != "a" || !strings.Contains(s.Problems[0].Message, "another pod with this name") || s.Pods != 1 || s.Stopped != nil {
			t.Errorf("the status is %+v", s)
		}
		w.remove("a")
		w.expect(time.Minute, "create a")
		// On another node, it is not seen.
		w.pods["c"] = other
		w.put(config.ADD, "file", staticPod("c", "3", v1.PodStatus{}))
		w.expect(4*second, "create c", "create c", "create c")
		if s := w.status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Message, "already exists") {
			t.Errorf("the status is %+v", s)
		}
		w.put(config.REMOVE, "file", staticPod("c", "3", v1.PodStatus{}))
		w.wait(time.Minute)
		if s := w.status(); len(s.Problems) != 0 || w.pods["c"] != other {
			t.Errorf("after the static pod: %+v, %v", s.Problems, w.pods["c"])
		}
	})
}

func TestBackoff(t *testing.T) {
	bubble(t, func(w *world) {
		w.fault["create"] = apierrors.NewForbidden(podResource, "a", errors.New("a mirror pod may not reference service accounts"))
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.seen("api", "http")
		if tries := len(w.wait(time.Hour)); tries < 50 || tries > 70 {
			t.Errorf("%d requests in an hour", tries)
		}
		if s := w.status(); len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Message, "may not reference service accounts") {
			t.Errorf("the status is %+v", s)
		}
		w.fault["create"] = apierrors.NewTooManyRequests("later", 30)
		w.wait(2 * time.Minute)
		w.fault["create"] = nil
		w.expect(2*time.Minute, "create a")
		if s := w.status(); len(s.Problems) != 0 || s.Pods != 1 {
			t.Errorf("the status is %+v", s)
		}
	})
}

// While the apiserver does not answer, one request is tried at a time.
func TestOutage(t *testing.T) {
	bubble(t, func(w *world) {
		w.fault["create"] = errors.New("connection refused")
		for name := range strings.SplitSeq("abcdefghij", "") {
			w.put(config.ADD, "file", staticPod(name, name, v1.PodStatus{}))
		}
		w.seen("api", "http")
		if tries := len(w.wait(time.Hour)); tries < 50 || tries > 70 {
			t.Errorf("%d requests in an hour", tries)
		}
		w.fault["create"] = nil
		if tries := len(w.wait(80 * second)); tries != 10 {
			t.Errorf("%d requests after the outage", tries)
		}
		if s := w.status(); len(s.Problems) != 0 || s.Pods != 10 {
			t.Errorf("the status is %+v", s)
		}
	})
}

// A mirror pod that the watch does not show yet is not created twice.
func TestTheWatchIsBehind(t *testing.T) {
	bubble(t, func(w *world) {
		w.seen("api", "http")
		w.quiet = true
		w.put(config.ADD, "file", staticPod("a", "1", phase(v1.PodPending)))
		w.expect(second, "create a", "status a")
		w.put(config.RECONCILE, "file", staticPod("a", "1", phase(v1.PodRunning)))
		w.expect(30*second, "status a")
		w.quiet = false
		w.show("a")
		w.expect(time.Hour)
		w.stopped("")
		if w.pods["a"].Status.Phase != v1.PodRunning {
			t.Errorf("the status is %+v", w.pods["a"].Status)
		}
	})
}

// A mirror pod that comes and goes between two passes is noticed.
func TestAnotherClientDeletesAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.seen("api", "http")
		w.quiet = true
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.expect(second, "create a")
		w.quiet = false
		w.show("a")
		w.remove("a")
		w.quiet = true
		w.expect(second, "create a")
		w.quiet = false
		w.show("a")
		w.remove("a")
		w.expect(second)
		w.stopped("another client deleted the mirror pod default/a")
		if s := w.status(); s.Pods != 0 {
			t.Errorf("%d mirror pods", s.Pods)
		}
	})
}

// An apiserver that is restored from a backup can lose all mirror pods at once.
func TestAllMirrorPodsAreLost(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.put(config.ADD, "file", staticPod("b", "2", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(second, "create a", "create b")
		w.remove("a")
		w.remove("b")
		w.expect(time.Hour, "create a", "create b")
		w.stopped("")
	})
}

// Of two daemons with one node name, the one that stopped leaves the mirror pods of the other.
func TestTwoDaemons(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.put(config.ADD, "file", staticPod("b", "2", v1.PodStatus{}))
		w.seen("api", "http")
		w.expect(second, "create a", "create b")
		w.remove("a")
		w.expect(second, "create a")
		w.remove("a")
		for _, name := range []string{"a", "c"} { // "a" has another hash, "c" no static pod
			others := staticPod(name, "", v1.PodStatus{})
			others.UID, others.Annotations = "other-"+others.UID, map[string]string{v1.MirrorPodAnnotationKey: "other", config.OwnMirrorAnnotationKey: "true"}
			others.UID += "-" + types.UID(name)
			w.pods[name] = others
			w.show(name)
		}
		w.put(config.REMOVE, "file", staticPod("b", "2", v1.PodStatus{}))
		w.expect(9*time.Minute, "delete b")
		w.stopped("another client deleted the mirror pod default/a")
	})
}

// The requests of a second are limited.
func TestRate(t *testing.T) {
	bubble(t, func(w *world) {
		for n := range 300 {
			name := fmt.Sprint("p", n)
			w.put(config.ADD, "file", staticPod(name, name, v1.PodStatus{}))
		}
		w.seen("api", "http")
		if n := len(w.wait(second)); n < 100 || n > 155 {
			t.Errorf("%d requests in the first second", n)
		}
		if n := len(w.wait(time.Minute)); n < 140 {
			t.Errorf("%d requests afterwards", n)
		}
	})
}

// Two sources can have a pod of the same name. One of them has the mirror pod.
func TestOneNameInTwoSources(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(config.ADD, "http", staticPod("a", "2", v1.PodStatus{}))
		w.seen("api", "file")
		w.expect(second, "create a")
		w.put(config.ADD, "file", staticPod("a", "1", v1.PodStatus{}))
		w.expect(time.Hour)
		w.put(config.REMOVE, "http", staticPod("a", "2", v1.PodStatus{}))
		w.expect(second, "delete a", "create a")
	})
}
