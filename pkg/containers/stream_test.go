package containers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

func TestLifeOfAContainer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("old/app running")
		w.deliver(config.ADD, "api", pod("old"))
		w.pids["old-app"] = 7
		s := w.watch(nil, WatchOptions{})
		s.expect("ADD api old/app running 7; BOOKMARK complete")
		w.set("web/app created") // before a source has the pod
		s.expect("ADD - web/app created")
		w.deliver(config.ADD, "file", pod("web"))
		s.expect("UPDATE file web/app created")
		w.pids["web-app"] = 8
		w.set("web/app running")
		s.expect("UPDATE file web/app running; UPDATE file web/app running 8")
		w.deliver(config.RECONCILE, "file", pod("web", podtest.Phase(v1.PodRunning)))
		w.deliver(config.UPDATE, "file", pod("web", podtest.Label("a", "b"))) // nobody has requested labels
		s.expect("")
		w.devices["app"] = &v1alpha1.ContainerResources{Devices: []v1alpha1.Devices{{Resource: "gpu", IDs: []string{"0"}}}}
		w.stream.Listed()
		s.expect("UPDATE api old/app running 7 [{gpu [0] []}]; UPDATE file web/app running 8 [{gpu [0] []}]")
		w.set("web/app exited")
		w.deliver(config.REMOVE, "file", pod("web"))
		w.set("web/app removed")
		s.expect("UPDATE file web/app exited 8 [{gpu [0] []}]; REMOVE file web/app exited 8 [{gpu [0] []}]")
		w.set("never/seen removed")
		s.expect("")
	})
}

func TestLabelsOfContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		selector, err := labels.Parse("image in (x, y)")
		if err != nil {
			t.Fatal(err)
		}
		all, some := w.watch(nil, WatchOptions{Labels: true}), w.watch(nil, WatchOptions{Selector: view.Selector{Labels: selector}})
		all.expect("BOOKMARK complete")
		some.expect("BOOKMARK complete")
		w.set("web/app created")
		w.deliver(config.ADD, "api", pod("web=x"))
		all.expect("ADD - web/app created; UPDATE api web/app created image=x")
		some.expect("ADD api web/app created")
		w.deliver(config.UPDATE, "api", pod("web=y"))
		all.expect("UPDATE api web/app created image=y")
		some.expect("")
		w.deliver(config.UPDATE, "api", pod("web=z"))
		some.expect("REMOVE api web/app created")
		w.set("web/app removed")
		all.expect("UPDATE api web/app created image=z; REMOVE api web/app exited image=z")
		some.expect("")
	})
}

// A container whose pod no source has can be of any pod. So it is shown only to those who see all that it can be.
func TestHiddenContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gate.SetPolicy(access.NewPolicy([]access.Rule{
			{Users: []string{"metadata"}, View: access.Metadata},
			{Users: []string{"files"}, Sources: []string{"file"}, View: access.Full}, {Users: []string{"root"}, View: access.Full},
		}))
		as := func(user string) *subscriber {
			scope, err := w.gate.Scope(access.Subject{User: user})
			if err != nil {
				t.Fatal(err)
			}
			return w.watch(scope, WatchOptions{})
		}
		metadata, files, root, other := as("metadata"), as("files"), as("root"), as("other")
		for _, s := range []*subscriber{metadata, files, root, other} {
			s.expect("BOOKMARK complete")
		}
		w.devices["app"] = &v1alpha1.ContainerResources{Devices: []v1alpha1.Devices{{Resource: "gpu", IDs: []string{"0"}}}}
		w.set("web/app created")
		w.set("db/app created")
		w.deliver(config.ADD, "api", pod("web"))
		w.deliver(config.ADD, "file", pod("db"))
		files.expect("ADD file db/app created [{gpu [0] []}]")
		metadata.expect("ADD - web/app created; ADD - db/app created; UPDATE api web/app created; UPDATE file db/app created")
		other.expect("")
		if n := len(root.read()); n != 4 {
			t.Errorf("%d lines", n)
		}
		w.gate.SetPolicy(access.NewPolicy([]access.Rule{{Users: []string{"other"}, Sources: []string{"api"}, View: access.Full}}))
		w.stream.Restart()
		synctest.Wait()
		files.expect("BOOKMARK reset: the access rules changed; BOOKMARK complete")
		other.expect("BOOKMARK reset: the access rules changed; ADD api web/app created [{gpu [0] []}]; BOOKMARK complete")
		if opts := root.since(); opts.Instance == other.instance {
			t.Error("the instance is the same")
		}
	})
}

func TestResumeOfContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.watch(nil, WatchOptions{})
		first.expect("BOOKMARK complete")
		w.set("a/x created")
		first.expect("ADD - a/x created")
		at := first.since()
		w.set("b/x created")
		w.set("a/x removed")
		second := w.watch(nil, at)
		second.held["a-x"] = ""
		second.expect("ADD - b/x created; REMOVE - a/x exited")
		again := w.watch(nil, second.since())
		again.expect("")

		beyond := second.since()
		beyond.Since = new(second.revision + 1)
		w.watch(nil, beyond).expect(fmt.Sprintf("BOOKMARK reset: the changes after revision %d are not there: the last one is %d; ADD - b/x created; BOOKMARK complete", second.revision+1, second.revision))
		other := at
		other.Instance = "other"
		lines := w.watch(nil, other).read()
		if !strings.HasPrefix(lines[0], "BOOKMARK reset: revision") || len(lines) != 3 {
			t.Error(lines)
		}

		for i := range 2*maxChanges + 2 {
			w.set(fmt.Sprint("b/x ", []string{"running", "exited"}[i%2]))
		}
		for _, s := range []*subscriber{w.watch(nil, at), again} {
			if lines := s.read(); !strings.HasPrefix(lines[0], "BOOKMARK reset: the") || lines[1] != "ADD - b/x exited" || lines[2] != "BOOKMARK complete" {
				t.Error(lines)
			}
		}
	})
}

// A subscriber that sees nothing of many changes gets a revision from which it can resume.
func TestProgressOfContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{Selector: view.Selector{Namespace: "other"}})
		s.expect("BOOKMARK complete")
		w.set("a/x created")
		for i := range 2 * progress {
			w.set(fmt.Sprint("a/x ", []string{"running", "exited"}[i%2]))
			if i%100 == 0 {
				s.read()
			}
		}
		if at := s.revision; at+progress+200 < w.stream.recording.revision {
			t.Errorf("revision %d of %d", at, w.stream.recording.revision)
		}
	})
}

// Nothing is recorded without subscribers, except for some minutes after the last one.
func TestRecordingOnDemand(t *testing.T) {
	inWorld(t, func(w *world) {
		if w.follower != nil {
			t.Error("it follows the runtime")
		}
		s := w.watch(nil, WatchOptions{})
		s.expect("BOOKMARK complete")
		s.Close()
		w.set("a/x created")
		<-time.After(linger - time.Minute)
		resumed := w.watch(nil, s.since())
		resumed.expect("ADD - a/x created")
		resumed.Close()
		<-time.After(2*linger + time.Second)
		synctest.Wait()
		if w.follower != nil || w.stream.recording != nil {
			t.Error("it still follows the runtime")
		}
		w.set("a/x removed")
		late := w.watch(nil, resumed.since())
		synctest.Wait()
		late.expect(fmt.Sprintf("BOOKMARK reset: revision %d belongs to instance %s, this instance is %s; BOOKMARK complete", resumed.revision, resumed.instance, w.stream.recording.instance))
	})
}

// Before the runtime is listed, it is not known what there is.
func TestUnlistedRuntime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.behind = errors.New("no answer")
		s := w.watch(nil, WatchOptions{})
		s.expect("")
		if _, err := w.stream.List(w.t.Context(), nil, WatchOptions{}); err == nil || !strings.Contains(err.Error(), "has not been listed yet: no answer") {
			t.Error(err)
		}
		w.mu.Lock()
		w.behind = nil
		w.mu.Unlock()
		w.set("a/x created")
		<-time.After(2 * syncPeriod)
		s.expect("ADD - a/x created; BOOKMARK complete")
		list, err := w.stream.List(w.t.Context(), nil, WatchOptions{})
		if err != nil || len(list.Containers) != 1 || list.Revision != s.revision || list.Instance != s.instance {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// What subscribers hold is what there is, whenever they come and go.
func TestRandomContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		random := rand.New(rand.NewPCG(1, 2))
		selector, err := labels.Parse("image=x")
		if err != nil {
			t.Fatal(err)
		}
		options := []WatchOptions{{}, {Labels: true}, {Selector: view.Selector{Source: "api"}}, {Selector: view.Selector{Labels: selector}}}
		var subscribers []*subscriber
		for range 3000 {
			name := fmt.Sprint("p", random.IntN(4))
			switch random.IntN(10) {
			case 0:
				w.deliver(config.ADD, []string{"api", "file"}[random.IntN(2)], pod(name+"="+[]string{"x", "y"}[random.IntN(2)]))
			case 1:
				w.deliver(config.UPDATE, "api", pod(name+"="+[]string{"x", "y"}[random.IntN(2)]))
			case 2:
				if s := w.watch(nil, options[random.IntN(len(options))]); len(subscribers) < 8 {
					subscribers = append(subscribers, s)
				}
			case 3:
				if n := len(subscribers); n > 0 {
					before := subscribers[random.IntN(n)]
					if before.revision == 0 {
						continue
					}
					before.Close()
					before.Cursor = w.stream.Watch(nil, before.since())
				}
			case 4:
				if random.IntN(20) == 0 {
					w.stream.Restart()
					synctest.Wait()
				}
			default:
				w.mu.Lock()
				w.pids[name+"-app"] = random.IntN(3)
				w.mu.Unlock()
				w.set(name + "/app " + []string{"created", "running", "exited", "removed"}[random.IntN(4)])
			}
			if random.IntN(4) == 0 && len(subscribers) > 0 {
				subscribers[random.IntN(len(subscribers))].read()
			}
		}
		for _, s := range subscribers {
			s.read()
			list, err := w.stream.List(w.t.Context(), nil, s.opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Containers) != len(s.held) {
				t.Errorf("%+v holds %v, there is %+v", s.opts, s.held, list.Containers)
			}
			for i := range list.Containers {
				if c := &list.Containers[i]; s.held[c.ID] != shownContainer(c) {
					t.Errorf("%+v holds %q, there is %q", s.opts, s.held[c.ID], shownContainer(c))
				}
			}
			s.Close()
		}
	})
}
