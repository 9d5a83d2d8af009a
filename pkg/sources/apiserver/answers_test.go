package apiserver

import (
	"fmt"
	nethttp "net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch that had bookmarks, and then nothing, is unhealthy until the next event or
// bookmark.
func TestSilentWatch(t *testing.T) {
	var silent atomic.Bool
	talk := func(w nethttp.ResponseWriter, r *nethttp.Request) {
		flush(w)
		for version := 21; ; version++ {
			select {
			case <-time.After(time.Minute):
				if !silent.Load() {
					bookmark(w, fmt.Sprint(version), false)
				}
			case <-r.Context().Done():
				return
			}
		}
	}
	faults := map[string]nethttp.HandlerFunc{listing: func(w nethttp.ResponseWriter, r *nethttp.Request) {
		bookmark(w, "20", true)
		talk(w, r)
	}}
	run(t, faults, func(f *fake) {
		f.healthy(time.Second, 0)
		<-time.After(2*time.Minute + 30*time.Second)
		f.mu.Lock()
		f.pods = nil
		f.mu.Unlock()
		if f.source.Status().Degraded || f.failures() != 0 {
			f.t.Fatalf("degraded though bookmarks come: %+v", f.source.Status())
		}
		silent.Store(true)
		<-time.After(2*time.Minute + 31*time.Second)
		f.degraded(10 * time.Minute)
		if n := len(f.attempts(time.Now().Add(-10 * time.Minute))); n < 4 || n > 30 {
			f.t.Errorf("%d requests in ten minutes of silence", n)
		}
		f.mend(map[string]nethttp.HandlerFunc{listing: func(w nethttp.ResponseWriter, r *nethttp.Request) {
			bookmark(w, "99", true)
			bookmark(w, "100", false)
			<-r.Context().Done()
		}})
		f.healthy(3*time.Minute, 0)
	})
}

// That an apiserver has no WatchList is no failure.
func TestWithoutWatchList(t *testing.T) {
	run(t, map[string]nethttp.HandlerFunc{listing: status(nethttp.StatusUnprocessableEntity, metav1.StatusReasonInvalid)}, func(f *fake) {
		f.healthy(time.Second, 2)
		if f.failures() != 0 || f.errors() != 0 {
			f.t.Errorf("%d failures, %d errors were logged", f.failures(), f.errors())
		}
	})
}

// A watch without bookmarks may be silent.
func TestQuietWatch(t *testing.T) {
	run(t, nil, func(f *fake) {
		f.healthy(time.Second, 2)
		<-time.After(20 * time.Minute)
		if f.source.Status().Degraded || f.failures() != 0 {
			f.t.Errorf("the status is %+v", f.source.Status())
		}
	})
}

// If a server that is not an apiserver answers every request with some object, the node
// stays unknown and no pod is removed.
func TestAnswersOfNoApiserver(t *testing.T) {
	for name, object := range map[string]map[string]any{
		"nothing":                            {},
		"a list without a resourceVersion":   {"apiVersion": "v1", "kind": "PodList"},
		"a list of other objects":            {"apiVersion": "v1", "kind": "NodeList", "metadata": map[string]any{"resourceVersion": "20"}},
		"an event of a watch, or an unknown": {"type": "ADDED", "object": map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"resourceVersion": "20"}}},
	} {
		t.Run(name, func(t *testing.T) {
			some := func(w nethttp.ResponseWriter, _ *nethttp.Request) { write(w, object) }
			run(t, map[string]nethttp.HandlerFunc{getNode: some}, func(f *fake) {
				<-time.After(time.Minute)
				if api := f.source.Status().API; api.NodeKnown || !f.source.Status().Degraded {
					f.t.Errorf("the status is %+v", f.source.Status())
				}
				f.mend(podRequests(some))
				<-time.After(time.Minute)
				f.degraded(time.Minute)
				if f.has(0) || f.has(1) {
					f.t.Error("a set was sent")
				}
				f.mend(nil)
				f.healthy(lastRetry+time.Second, 2)
			})
		})
	}
}

// A request that is never answered fails, and the error says so.
func TestNoAnswer(t *testing.T) {
	fault := func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() }
	run(t, podRequests(fault), func(f *fake) {
		<-time.After(answerTimeout + time.Second)
		if got, want := f.source.Status().LastError, "watching pods: no answer within 30s"; got != want {
			f.t.Errorf("the last error is %q, want %q", got, want)
		}
		<-time.After(10 * time.Minute)
		if n := f.failures(); n < 12 || n > 22 {
			f.t.Errorf("%d failures in ten minutes", n)
		}
	})
}
