package apiserver

import (
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/test/components"
)

// A watch that has lasted ends the series of failures: the wait after it is short again.
func TestALastingWatchEndsASeries(t *testing.T) {
	var cut atomic.Bool
	run(t, podRequests(failing["500"]), func(f *fake) {
		<-time.After(5 * time.Minute)
		f.mend(map[string]nethttp.HandlerFunc{listing: listThenCut(&cut), watching: untilCut(&cut)})
		f.healthy(lastRetry+time.Second, 2)
		<-time.After(time.Minute)
		begin := time.Now()
		cut.Store(true)
		<-time.After(time.Second)
		if n := len(f.attempts(begin)); n < 2 {
			t.Errorf("%d requests in the second after the cut", n)
		}
	})
}

// Each attempt has another URL, but the error is the same.
func TestConnectionsAreRefused(t *testing.T) {
	var cut atomic.Bool
	run(t, map[string]nethttp.HandlerFunc{listing: listThenCut(&cut)}, func(f *fake) {
		f.healthy(2*time.Second, 2)
		<-time.After(time.Minute)
		f.refuses.Store(true)
		cut.Store(true)
		<-time.After(2 * time.Second)
		f.degraded(10 * time.Minute)
		if n := f.errors(); n > 2 { // of a watch, and of a list
			t.Errorf("%d errors are logged", n)
		}
		if err := f.source.Status().LastError; !strings.HasSuffix(err, "refused") || strings.Contains(err, "?") {
			t.Errorf("the last error is %s", err)
		}
		f.refuses.Store(false)
		f.mend(nil)
		f.healthy(lastRetry+time.Second, 2)
	})
}

// New credentials are no failure: the pods are listed with them.
func TestNewCredentials(t *testing.T) {
	run(t, nil, func(f *fake) {
		f.healthy(2*time.Second, 2)
		<-time.After(time.Minute)
		conf := components.NewKubeconfig("http://127.0.0.1:1", nil)
		conf.AuthInfos["user"].Token = "another"
		components.WriteKubeconfig(t, f.source.connector.kubeconfig, conf)
		<-time.After(filesPeriod + 2*time.Second)
		f.healthy(0, 2)
		if api := f.source.Status().API; api.Relists != 1 || f.failures() != 0 || f.errors() != 0 {
			t.Errorf("%d failures, the status is %+v", f.failures(), api)
		}
	})
}

// listThenCut lists two pods, and then breaks connections when cut is true.
func listThenCut(cut *atomic.Bool) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		for _, pod := range []string{"a", "b"} {
			pod := fakePod(pod, map[string]string{"a": "10", "b": "11"}[pod])
			event(w, "ADDED", &pod)
		}
		bookmark(w, "20", true)
		untilCut(cut)(w, r)
	}
}

// untilCut breaks connections when cut is true.
func untilCut(cut *atomic.Bool) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		flush(w)
		for !cut.Load() && r.Context().Err() == nil {
			<-time.After(100 * time.Millisecond)
		}
		panic(nethttp.ErrAbortHandler)
	}
}

// The pods of a list are the pods, whatever the source had, also if their resourceVersions are lower.
func TestAListIsTheTruth(t *testing.T) {
	var cut atomic.Bool
	for name, pods := range map[string][]v1.Pod{
		"older":                    {fakePod("a", "3")},
		"none":                     {},
		"others":                   {fakePod("c", "3"), fakePod("d", "30")},
		"the same resourceVersion": {func() v1.Pod { p := fakePod("a", "10"); p.Status.Message = "restored"; return p }()},
	} {
		t.Run(name, func(t *testing.T) {
			cut.Store(false)
			run(t, map[string]nethttp.HandlerFunc{listing: listThenCut(&cut)}, func(f *fake) {
				f.healthy(2*time.Second, 2)
				<-time.After(time.Minute)
				f.mend(nil)
				f.mu.Lock()
				f.pods = pods
				f.mu.Unlock()
				cut.Store(true)
				<-time.After(2 * time.Second)
				f.healthy(0, len(pods))
				if api := f.source.Status().API; api.Relists != 1 || api.WatchRestarts != 1 || time.Since(*api.LastList) > 2*time.Second {
					t.Errorf("the status is %+v", api)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				for i := range pods {
					if !slices.ContainsFunc(f.last, func(p *v1.Pod) bool {
						return p.Name == pods[i].Name && p.ResourceVersion == pods[i].ResourceVersion && p.Status.Message == pods[i].Status.Message
					}) {
						t.Errorf("%s %s is not there", pods[i].Name, pods[i].ResourceVersion)
					}
				}
			})
		})
	}
}

// A list is never older than what the source has had, unless the apiserver does not have that any more.
func TestNoListIsOlder(t *testing.T) {
	var mu sync.Mutex
	var versions []string
	run(t, nil, func(f *fake) {
		f.mend(map[string]nethttp.HandlerFunc{
			listing: status(nethttp.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
			listPods: func(w nethttp.ResponseWriter, r *nethttp.Request) {
				version := r.URL.Query().Get("resourceVersion")
				mu.Lock()
				versions = append(versions, version)
				mu.Unlock()
				if version == "30" {
					answer := statusOf(nethttp.StatusGatewayTimeout, metav1.StatusReasonTimeout)
					answer["details"] = map[string]any{"causes": []any{map[string]any{"reason": metav1.CauseTypeResourceVersionTooLarge}}}
					w.WriteHeader(nethttp.StatusGatewayTimeout)
					write(w, answer)
					return
				}
				write(w, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"resourceVersion": "20"}, "items": f.pods})
			},
			watching: func(w nethttp.ResponseWriter, r *nethttp.Request) {
				bookmark(w, "30", false)
				_ = await.For(r.Context(), time.Minute)
			},
		})
		<-time.After(90 * time.Second)
		f.healthy(0, 2)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"0", "30", ""}; !slices.Equal(versions, want) {
			t.Errorf("lists at the resourceVersions %q, want %q", versions, want)
		}
	})
}
