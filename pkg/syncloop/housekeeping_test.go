package syncloop

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// slow is a handler whose housekeeping takes some time.
type slow struct {
	*recorder
	takes time.Duration
}

func (s *slow) HandlePodOrphans(context.Context, []*v1.Pod) {
	time.Sleep(s.takes) //nolint:forbidigo // virtual time
}

func TestSlowHousekeepingIsLogged(t *testing.T) {
	for _, takes := range []time.Duration{housekeepingWarningDuration, housekeepingWarningDuration + time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
			handler := &slow{recorder: newRecorder(), takes: takes}
			runtime := &events{events: make(chan *pleg.PodLifecycleEvent)}
			runtime.has("orphan")
			loop := New(Options{
				Handler: handler, PLEG: runtime,
				SourcesReady: handler,
			})
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
			done := make(chan error)
			go func() { done <- loop.Run(ctx, nil) }()
			pass(2*housekeepingPeriod - time.Millisecond)
			cancel()
			<-done
			said := strings.Contains(log.String(), "Housekeeping took longer than expected")
			if want := takes > housekeepingWarningDuration; said != want {
				t.Errorf("housekeeping of %v: said %v, want %v: %s", takes, said, want, log.String())
			}
		})
	}
}

// Pods in the runtime are no orphans while a source that was added has not been seen. When a
// source is removed, its pods are orphans.
func TestNoOrphansBeforeAnAddedSourceIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		h.send(config.ADD, "file", "a")
		h.events.has("a")
		pass(3 * housekeepingPeriod)
		h.expect(t, "additions ADD a")
		h.updates <- config.PodUpdate{Op: config.BOOKMARK, Source: "file:x", Pods: []*v1.Pod{}, Change: config.SourceAdded}
		h.events.has("a", "b")
		pass(3 * housekeepingPeriod)
		h.expect(t, "source file:x BOOKMARK 0")
		h.send(config.ADD, "file:x", "b")
		pass(3 * housekeepingPeriod)
		h.expect(t, "additions ADD b")
		h.updates <- config.PodUpdate{Op: config.REMOVE, Source: "file:x", Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b"}}}, Change: config.SourceRemoved}
		pass(3 * housekeepingPeriod)
		h.expect(t, "source file:x REMOVE 1", "orphans b")
		h.stop(t)
	})
}

// With a shorter frequency, a pod is not due at the end of the long one. With the same, it is due as before.
func TestSetSyncFrequency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		if err := h.loop.SetSyncFrequency(t.Context(), 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		h.send(config.ADD, "file", "a")
		pass(time.Hour)
		due := h.loop.queue.due["a"]
		for range 100 {
			if err := h.loop.SetSyncFrequency(t.Context(), 24*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(h.syncs["a"]); n > 0 || !h.loop.queue.due["a"].Equal(due) {
			t.Errorf("%d syncs within an hour, the next one at %v, not %v", n, h.loop.queue.due["a"], due)
		}
		if err := h.loop.SetSyncFrequency(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		pass(17 * time.Second)
		h.stop(t)
		if n := len(h.syncs["a"]); n != 1 {
			t.Errorf("%d syncs in 17 seconds", n)
		}
	})
}

// present is a kubelet that may run on the node.
type present struct{ atomic.Bool }

func (p *present) Present() bool           { return p.Load() }
func (p *present) MirrorPod(*v1.Pod, bool) {}

// A sandbox of a static pod under another UID is no orphan while a kubelet runs on the node: it cleans it
// up. Sandboxes of other pods are.
func TestSandboxesOfTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		kubelet := new(present)
		kubelet.Store(true)
		h.loop.kubelet = kubelet
		h.send(config.ADD, "file", "web")
		pods := []*pleg.Pod{
			{UID: "old", Namespace: "default", Name: "web", Source: "file"},
			{UID: "old-of-api", Namespace: "default", Name: "web", Source: "api"},
			{UID: "other", Namespace: "default", Name: "other", Source: "file"},
		}
		h.events.pods.Store(&pods)
		pass(3 * housekeepingPeriod)
		h.expect(t, "additions ADD web", "orphans web other")
		kubelet.Store(false)
		pass(3 * housekeepingPeriod)
		h.expect(t, "orphans web web other")
		h.stop(t)
	})
}

// A set that gives a static pod another UID removes it and adds it. Between the two, it has no pod of that name, and
// the sandboxes of the kubelet are no orphans.
func TestNoOrphansWithinASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, "file")
		kubelet := new(present)
		kubelet.Store(true)
		h.loop.kubelet = kubelet
		h.send(config.ADD, "file", "web")
		h.events.pods.Store(&[]*pleg.Pod{{UID: "web", Namespace: "default", Name: "web", Source: "file"}, {UID: "next", Namespace: "default", Name: "web", Source: "file"}})
		web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"}}
		h.updates <- config.PodUpdate{Op: config.REMOVE, Source: "file", Pods: []*v1.Pod{web}, More: true}
		pass(3 * housekeepingPeriod)
		next := web.DeepCopy()
		next.UID = "next"
		h.updates <- config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{next}}
		pass(3 * housekeepingPeriod)
		h.expect(t, "additions ADD web", "removes REMOVE web", "additions ADD web")
		h.stop(t)
	})
}
