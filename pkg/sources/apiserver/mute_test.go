package apiserver

import (
	nethttp "net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/await"
)

// mostStale is how long the source may miss a change, as docs/reference/sources.md says.
const mostStale = 150 * time.Second

// stay keeps a connection open, without another byte.
func stay(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() }

// bookmarksFor sends bookmarks for the duration, and then nothing.
func bookmarksFor(d time.Duration) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		flush(w)
		for end := time.Now().Add(d); time.Now().Before(end); {
			bookmark(w, "21", false)
			if await.For(r.Context(), time.Minute) != nil {
				return
			}
		}
		stay(w, r)
	}
}

// listThen lists in a watch, and continues with the handler.
func (f *fake) listThen(then nethttp.HandlerFunc, bookmarks ...string) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		f.mu.Lock()
		pods := slices.Clone(f.pods)
		f.mu.Unlock()
		flush(w)
		for i := range pods {
			event(w, "ADDED", &pods[i])
		}
		for _, version := range bookmarks {
			bookmark(w, version, true)
		}
		then(w, r)
	}
}

// put adds a pod, of which no watch tells.
func (f *fake) put(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = append(slices.Clone(f.pods), fakePod(name, "22"))
}

// In whatever phase a stream goes mute, a change is not missed for longer than the documentation says. This holds each
// time, and the source does not make many requests for it.
func TestMuteStreams(t *testing.T) {
	refused := status(nethttp.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	hung := func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() }
	for name, test := range map[string]struct {
		faults func(*fake) map[string]nethttp.HandlerFunc
		// start is the longest time until the first set, and stale until a later change is there.
		start, stale time.Duration
		// failure means that each silence is a failure. Some servers have no bookmarks.
		failure bool
	}{
		"after the list in the watch": {
			func(f *fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: f.listThen(stay, "20")}
			}, time.Second, mostStale, false,
		},
		"after a bookmark": {
			func(f *fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: f.listThen(bookmarksFor(time.Second), "20")}
			}, time.Second, mostStale, true,
		},
		"after bookmarks": {
			func(f *fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: f.listThen(bookmarksFor(3*time.Minute), "20")}
			}, time.Second, 3*time.Minute + mostStale, true,
		},
		"a watch after a list": {
			func(*fake) map[string]nethttp.HandlerFunc { return map[string]nethttp.HandlerFunc{listing: refused} },
			time.Second, mostStale, false,
		},
		"a watch after a list, after a bookmark": {
			func(*fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: refused, watching: bookmarksFor(time.Second)}
			}, time.Second, mostStale, true,
		},
		"before the end of the list": {
			func(f *fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: f.listThen(stay)}
			}, listSilence + time.Second, mostStale, false,
		},
		"before the list": {
			func(*fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: bookmarksFor(0)}
			}, listSilence + time.Second, mostStale, false,
		},
		"before the answer": {
			func(*fake) map[string]nethttp.HandlerFunc { return map[string]nethttp.HandlerFunc{listing: hung} },
			answerTimeout + 2*time.Second, mostStale, false,
		},
		"of events, but not of bookmarks": { // the watch does not end either
			func(f *fake) map[string]nethttp.HandlerFunc {
				return map[string]nethttp.HandlerFunc{listing: f.listThen(bookmarksFor(time.Hour), "20")}
			}, time.Second, 10*time.Minute + answerTimeout + time.Second, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, podRequests(hung), func(f *fake) {
				synctest.Wait()
				f.mu.Lock()
				f.faults = test.faults(f)
				f.mu.Unlock()
				f.within(test.start+answerTimeout+time.Second, 2) // the first request hangs
				for pods := 3; pods < 6; pods++ {
					<-time.After(time.Second)
					f.put(string(rune('a' + pods - 1)))
					f.within(test.stale, pods)
				}
				begin, before := time.Now(), f.failures()
				<-time.After(time.Hour)
				if n := f.failures() - before; (n > 5) != test.failure {
					t.Errorf("%d failures in an hour", n)
				}
				if n := len(f.attempts(begin)); n > 60 {
					t.Errorf("%d requests in an hour", n)
				}
			})
		})
	}
}

// within waits until the source has the pods.
func (f *fake) within(limit time.Duration, pods int) {
	f.t.Helper()
	for begin := time.Now(); !f.has(pods); <-time.After(100 * time.Millisecond) {
		if time.Since(begin) > limit {
			f.t.Fatalf("not %d pods after %v: %+v", pods, limit, f.source.Status())
		}
	}
}

// That a server can't list in a watch is noticed once, at the start.
func TestWhatAServerCannotDoIsRemembered(t *testing.T) {
	for name, fault := range map[string]nethttp.HandlerFunc{
		"no bookmark ends the list": func(w nethttp.ResponseWriter, r *nethttp.Request) {
			pod := fakePod("a", "10")
			event(w, "ADDED", &pod)
			stay(w, r)
		},
		"no answer": func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() },
		"no event":  bookmarksFor(0),
		"other events": func(w nethttp.ResponseWriter, r *nethttp.Request) {
			for pod := fakePod("a", "10"); await.For(r.Context(), time.Second) == nil; {
				event(w, "MODIFIED", &pod)
			}
		},
		"400": failing["400"],
		"406": failing["406"],
		"422": failing["422"],
	} {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]nethttp.HandlerFunc{listing: fault}, func(f *fake) {
				f.healthy(answerTimeout+3*time.Second, 2)
				<-time.After(time.Hour)
				lists := make(map[string]int)
				for _, r := range f.attempts(time.Time{}) {
					lists[r.what]++
				}
				if lists[listing] != 1 || lists[listPods] < 20 {
					t.Errorf("requests in an hour: %v", lists)
				}
				api := f.source.Status().API
				if api.Relists != lists[listPods]-1 || api.LastList == nil || time.Since(*api.LastList) > mostStale {
					t.Errorf("requests in an hour: %v, and the status has %+v", lists, api)
				}
			})
		})
	}
}

// A watch of the node or the namespaces that goes mute is not trusted either.
func TestMuteStreamsOfOtherObjects(t *testing.T) {
	var got recorded
	var version atomic.Value
	version.Store("1")
	server := newObjectsServer()
	faults := server.faults()
	faults[listObjects] = func(w nethttp.ResponseWriter, r *nethttp.Request) {
		v, _ := version.Load().(string)
		server.list(w, r, v)
	}
	runWith(t, got.objects(), faults, func(f *fake) {
		<-time.After(5 * time.Second)
		got.take()
		for _, v := range []string{"2", "3"} {
			version.Store(v)
			<-time.After(mostStale)
			calls := got.take()
			for _, want := range []string{"node " + v, "a " + v + "0"} {
				if !strings.Contains(calls, want) {
					t.Errorf("calls %q, want %s", calls, want)
				}
			}
		}
		if f.source.Status().Degraded || f.errors() != 0 {
			t.Errorf("%d errors", f.errors())
		}
	})
}
