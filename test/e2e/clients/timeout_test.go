package clients

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// timedInformer is an informer whose requests, watches too, end after a timeout of the client.
type timedInformer struct {
	informer cache.SharedIndexInformer
	// resumed counts the watches that started at a revision, lists all other requests.
	resumed, lists atomic.Int32
	// round is the newest round of a pod. lost has the first event that did not come.
	round atomic.Int64
	lost  atomic.Pointer[string]
}

func newTimedInformer(t *testing.T, s *cutServer, contentType string, timeout time.Duration) *timedInformer {
	t.Helper()
	i := new(timedInformer)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://localhost", QPS: -1, Timeout: timeout,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.socket)
		},
		ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return e2e.RoundTripper(func(r *http.Request) (*http.Response, error) {
				query := r.URL.Query()
				if query.Get("watch") != "" && query.Get("resourceVersion") != "" && query.Get("sendInitialEvents") == "" {
					i.resumed.Add(1)
				} else {
					i.lists.Add(1)
				}
				return next.RoundTrip(r)
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	i.informer = informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	if _, err := i.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		from, to := roundOf(before), roundOf(after)
		if to != from+1 {
			i.lost.CompareAndSwap(nil, new(fmt.Sprintf("after round %d of pod %s came round %d", from, after.(*v1.Pod).Name, to)))
		}
		i.round.Store(max(i.round.Load(), to))
	}}); err != nil {
		t.Fatal(err)
	}
	return i
}

func roundOf(object any) int64 {
	round, _ := strconv.ParseInt(object.(*v1.Pod).Labels["round"], 10, 64) // 0 at first
	return round
}

// round returns an update of all pods.
func round(op config.PodOperation, n int64) config.PodUpdate {
	const pods = 50
	u := config.PodUpdate{Op: op, Source: config.FileSource}
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		u.Pods = append(u.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{"round": fmt.Sprint(n)},
		}})
	}
	return u
}

// TestInformersWithATimeout has informers with a rest.Config.Timeout follow updates of many
// pods. Their watches end in the middle of updates, without a broken connection. Each
// informer resumes, and gets every update of every pod without another list.
func TestInformersWithATimeout(t *testing.T) {
	testutil.Long(t)
	eachInformer(t, func(t *testing.T, _ bool, contentType string) {
		// A Reflector lists again after a watch without an event that was shorter than a
		// second. On a machine with much other work, the timeout must be longer.
		for timeout := time.Second; testInformersWithATimeout(t, contentType, timeout) > 0; timeout *= 2 {
			if timeout > 8*time.Second {
				t.Fatal("informers list again whatever the timeout")
			}
		}
	})
}

// testInformersWithATimeout returns how often informers listed again.
func testInformersWithATimeout(t *testing.T, contentType string, timeout time.Duration) (again int) {
	t.Helper()
	const (
		// resumes is how often each informer resumes, at least.
		resumes = 4
		// ahead is the maximum number of rounds that an informer has not seen yet. The journal
		// keeps many more.
		ahead = 4
	)
	s := newCutServer(t)
	s.set(round(config.ADD, 0))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var all []*timedInformer
	for n := range 12 {
		// A Reflector backs off after a watch of less than a second.
		i := newTimedInformer(t, s, contentType, timeout+time.Duration(n)*7*time.Millisecond)
		all = append(all, i)
		running.Go(func() { i.informer.RunWithContext(ctx) })
	}
	every := func(holds func(i *timedInformer) bool) bool {
		return !slices.ContainsFunc(all, func(i *timedInformer) bool { return !holds(i) })
	}
	testutil.Until(t, "every informer watches", func() bool {
		return every(func(i *timedInformer) bool { return i.informer.HasSynced() })
	})
	var last int64
	for !every(func(i *timedInformer) bool { return i.resumed.Load() > resumes }) {
		last++
		s.set(round(config.UPDATE, last))
		testutil.Until(t, "no informer is far behind", func() bool {
			return every(func(i *timedInformer) bool { return i.round.Load() > last-ahead })
		})
	}
	for n, i := range all {
		testutil.Until(t, "every pod is of the last round", func() bool {
			return !slices.ContainsFunc(i.informer.GetStore().List(), func(pod any) bool { return roundOf(pod) != last })
		})
		more := i.lists.Load() - 1
		again += int(more)
		if lost := i.lost.Load(); lost != nil && more == 0 {
			t.Errorf("informer %d: %s", n, *lost)
		}
	}
	t.Logf("%d rounds with a timeout of %v, %d lists more", last, timeout, again)
	return again
}
