package apiserver

import (
	"fmt"
	"maps"
	nethttp "net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The ways in which a request or its answer fails.
var failing = map[string]nethttp.HandlerFunc{
	"the answer is aborted": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		flush(w)
		panic(nethttp.ErrAbortHandler)
	},
	"there is no answer": func(nethttp.ResponseWriter, *nethttp.Request) { panic(nethttp.ErrAbortHandler) },
	"the answer is garbage": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		_, _ = w.Write([]byte("<html>\n"))
	},
	"the answer is empty": func(w nethttp.ResponseWriter, _ *nethttp.Request) { flush(w) },
	"the answer ends early": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Length", "1000")
		pod := fakePod("a", "10")
		event(w, "ADDED", &pod)
	},
	"an event says 410": func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Query().Get("watch") == "" {
			status(nethttp.StatusGone, metav1.StatusReasonExpired)(w, r)
			return
		}
		event(w, "ERROR", statusOf(nethttp.StatusGone, metav1.StatusReasonExpired))
	},
	"an event says 500": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		event(w, "ERROR", statusOf(nethttp.StatusInternalServerError, metav1.StatusReasonInternalError))
	},
	"an event says 429": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		event(w, "ERROR", statusOf(nethttp.StatusTooManyRequests, metav1.StatusReasonTooManyRequests))
	},
	"an event of another object": func(w nethttp.ResponseWriter, r *nethttp.Request) {
		node := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "a", "resourceVersion": "20"}}
		if r.URL.Query().Get("watch") == "" {
			write(w, map[string]any{"apiVersion": "v1", "kind": "NodeList", "metadata": map[string]any{"resourceVersion": "20"}, "items": []any{node}})
			return
		}
		event(w, "ADDED", node)
		<-r.Context().Done()
	},
	"400": status(nethttp.StatusBadRequest, metav1.StatusReasonBadRequest),
	"403": status(nethttp.StatusForbidden, metav1.StatusReasonForbidden),
	"404": status(nethttp.StatusNotFound, metav1.StatusReasonNotFound),
	"406": status(nethttp.StatusNotAcceptable, metav1.StatusReasonNotAcceptable),
	"410": status(nethttp.StatusGone, metav1.StatusReasonExpired),
	"422": status(nethttp.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
	"429": status(nethttp.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
	"500": status(nethttp.StatusInternalServerError, metav1.StatusReasonInternalError),
	"502 of a proxy": func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(nethttp.StatusBadGateway)
		_, _ = w.Write([]byte("<html>502 Bad Gateway</html>"))
	},
	"503": status(nethttp.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
	"504": status(nethttp.StatusGatewayTimeout, metav1.StatusReasonTimeout),
}

// bounded checks what all failures have in common.
func (f *fake) bounded(since time.Time, before int) {
	f.t.Helper()
	attempts := f.attempts(since)
	for i := 1; i < len(attempts); i++ {
		if gap := attempts[i].at.Sub(attempts[i-1].at); gap > lastRetry+time.Second {
			f.t.Errorf("%v between attempts", gap)
		}
	}
	if n := len(attempts); n > 60 {
		f.t.Errorf("%d requests in %v", n, time.Since(since))
	}
	if n := f.failures() - before; n < 10 || n > len(attempts) {
		f.t.Errorf("failures_total grew by %d over %d requests", n, len(attempts))
	}
	if n := f.errors(); n < 1 || n > 4 {
		f.t.Errorf("%d errors were logged", n)
	}
}

// degraded checks the status each second for the duration.
func (f *fake) degraded(wait time.Duration) {
	f.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); <-time.After(time.Second) {
		if status := f.source.Status(); !status.Degraded || status.LastError == "" {
			f.t.Fatalf("the status is %+v", status)
		}
	}
}

// healthy waits until the source works, and has the pods.
func (f *fake) healthy(within time.Duration, pods int) {
	f.t.Helper()
	for end := time.Now().Add(within); ; <-time.After(100 * time.Millisecond) {
		if status := f.source.Status(); !status.Degraded && status.API.Connected && f.has(pods) {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("not healthy after %v: %+v", within, f.source.Status())
		}
	}
}

// Whatever the failure, attempts share one backoff, are counted, logged once and shown in
// the status.
func TestNothingSucceeds(t *testing.T) {
	for name, fault := range failing {
		t.Run(name, func(t *testing.T) {
			run(t, podRequests(fault), func(f *fake) {
				begin := time.Now()
				<-time.After(100 * time.Millisecond)
				f.degraded(2 * time.Minute)
				f.bounded(begin, 0)
				if f.has(0) {
					f.t.Error("a set was sent")
				}
				f.mend(nil)
				f.healthy(lastRetry+time.Second, 2)
			})
		})
	}
}

// The same for requests for the node. While the apiserver does not have it, they are a
// second apart.
func TestNodeFails(t *testing.T) {
	for name, fault := range failing {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]nethttp.HandlerFunc{getNode: fault}, func(f *fake) {
				<-time.After(100 * time.Millisecond)
				f.degraded(2 * time.Minute)
				least, most := 10, 40
				if name == "404" {
					least, most = 100, 140
				}
				if n := f.failures(); n < least || n > most {
					f.t.Errorf("%d failures in two minutes", n)
				}
				if n := f.errors(); n != 1 {
					f.t.Errorf("%d errors were logged", n)
				}
				f.mend(nil)
				f.healthy(lastRetry+time.Second, 2)
			})
		})
	}
}

// The same after a first list that succeeded. The pods stay.
func TestNothingSucceedsAfterAList(t *testing.T) {
	for name, fault := range failing {
		t.Run(name, func(t *testing.T) {
			var cut atomic.Bool
			run(t, map[string]nethttp.HandlerFunc{listing: listThenCut(&cut)}, func(f *fake) {
				f.healthy(2*time.Second, 2)
				<-time.After(time.Minute)
				begin, before := time.Now(), f.failures()
				f.mend(podRequests(fault))
				cut.Store(true)
				<-time.After(2 * time.Second)
				f.degraded(2 * time.Minute)
				f.bounded(begin, before)
				if !f.has(2) {
					f.t.Error("the pods are no longer held")
				}
				f.mend(nil)
				f.healthy(lastRetry+time.Second, 2)
			})
		})
	}
}

// If lists succeed and watches fail, attempts share one backoff too.
func TestWatchesFail(t *testing.T) {
	var cut atomic.Bool
	cut.Store(true)
	for name, fault := range failing {
		for which, faults := range map[string]map[string]nethttp.HandlerFunc{
			"all":   {listing: fault, watching: fault},
			"plain": {listing: listThenCut(&cut), watching: fault},
		} {
			t.Run(fmt.Sprintf("%s/%s", name, which), func(t *testing.T) {
				run(t, maps.Clone(faults), func(f *fake) {
					begin := time.Now()
					<-time.After(3 * time.Second)
					attempts := len(f.attempts(begin))
					<-time.After(2 * time.Minute)
					if n := len(f.attempts(begin)); n > 100 || n < attempts+10 {
						f.t.Errorf("%d requests in two minutes", n)
					}
					if n := f.failures(); n < 10 {
						f.t.Errorf("failures_total is %d", n)
					}
					if n := f.errors(); n < 1 || n > 20 { // the log has a rate
						f.t.Errorf("%d errors were logged", n)
					}
					f.mend(nil)
					f.healthy(lastRetry+time.Second, 2)
				})
			})
		}
	}
}

// After an initial watch that fails, client-go lists.
func TestListsWhereWatchListFails(t *testing.T) {
	for name, fault := range failing {
		switch name {
		case "403", "404", "429", "500", "502 of a proxy", "503", "504", "there is no answer":
			continue // a list would fail as well
		}
		t.Run(name, func(t *testing.T) {
			run(t, map[string]nethttp.HandlerFunc{listing: fault}, func(f *fake) {
				begin := time.Now()
				f.healthy(3*time.Second, 2)
				<-time.After(time.Minute)
				if n := len(f.attempts(begin)); n != 3 {
					f.t.Errorf("%d requests: %v", n, f.attempts(begin))
				}
			})
		})
	}
}

// Retry-After is honored up to a minute, also if the answer has a Status without it.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"30": 30 * time.Second, "3155760000": time.Minute, "99999999999999999999": time.Minute} {
		for _, code := range []int{nethttp.StatusTooManyRequests, nethttp.StatusServiceUnavailable, nethttp.StatusBadRequest} {
			t.Run(fmt.Sprint(code, " ", header), func(t *testing.T) {
				fault := status(code, "", "Retry-After", header)
				run(t, podRequests(fault), func(f *fake) {
					<-time.After(10 * time.Minute)
					attempts := f.attempts(time.Time{})
					for i := 1; i < len(attempts); i++ {
						if gap := attempts[i].at.Sub(attempts[i-1].at); gap < want || gap > want+time.Second {
							f.t.Fatalf("%v between attempts, want %v", gap, want)
						}
					}
					if len(attempts) < 10 {
						f.t.Errorf("%d attempts", len(attempts))
					}
				})
			})
		}
	}
}
