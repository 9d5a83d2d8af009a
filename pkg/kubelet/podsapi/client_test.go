package podsapi

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestHungKubelet: the kubelet answers the watch, and then nothing more. The Client notices it at the next list.
func TestHungKubelet(t *testing.T) {
	watches := make(chan struct{}, 100)
	k := &badKubelet{
		watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
			watches <- struct{}{}
			if len(watches) == 1 {
				_ = stream.Send(synced)
			}
			<-stream.Context().Done()
			return nil
		},
	}
	c := k.run(t, 10*time.Millisecond, func(c *Client) { c.timeout = 500 * time.Millisecond })
	testutil.Until(t, "the Client notices it", func() bool {
		r := c.Report()
		return !r.Connected && r.LastError == errSilent.Error() && len(watches) > 1
	})
}

// TestUnknownEvents: events of a later version, with a pod and without, do not end the watch.
func TestUnknownEvents(t *testing.T) {
	const later = 99
	k := &badKubelet{watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
		for _, e := range []*podsv1alpha1.WatchPodsEvent{
			{}, {Type: later}, synced, {}, {Type: later}, synced,
			event(t, later, "b"), event(t, podsv1alpha1.EventType_ADDED, "a"),
		} {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return nil
	}}
	c := k.run(t, time.Hour, func(*Client) {})
	testutil.Until(t, "the Client has the pod after them", func() bool { pods, _ := c.statuses.count(); return pods == 1 })
	if watches := prometheustest.ToFloat64(c.metrics.watches); watches != 1 {
		t.Errorf("%v watches", watches)
	}
}

// TestLargeAnswer: an answer that gRPC refuses is not requested again and again, as after a refusal of the kubelet.
func TestLargeAnswer(t *testing.T) {
	large := &podsv1alpha1.ListPodsResponse{Pods: [][]byte{make([]byte, maxMessage+1)}}
	k := &badKubelet{
		watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
			_ = stream.Send(synced)
			<-stream.Context().Done()
			return nil
		},
		list: func(context.Context) (*podsv1alpha1.ListPodsResponse, error) { return large, nil },
	}
	c := k.run(t, 10*time.Millisecond, func(*Client) {})
	testutil.Until(t, "the Client connects again", func() bool { return prometheustest.ToFloat64(c.metrics.watches) >= 3 })
	lists := prometheustest.ToFloat64(c.metrics.requests.WithLabelValues(listPods))
	if watches := prometheustest.ToFloat64(c.metrics.watches); lists > watches {
		t.Errorf("%v lists in %v watches", lists, watches)
	}
}

// TestUnknownPods: a pod is unknown if only one side has it. Without the apiserver as a source, its pods are not
// unknown.
func TestUnknownPods(t *testing.T) {
	for name, apiserver := range map[string]bool{"with_the_apiserver": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			c := New(Options{Apiserver: apiserver, Registerer: registry, Ours: func() map[types.UID]SourcePod {
				named := func(name types.NamespacedName, further bool) SourcePod {
					return SourcePod{NamespacedName: name, OfOtherSource: further}
				}
				return map[types.UID]SourcePod{
					"a": named(types.NamespacedName{Namespace: "n", Name: "a"}, false), "b": named(types.NamespacedName{Namespace: "n", Name: "b"}, false),
					"c": named(types.NamespacedName{Namespace: "m", Name: "c"}, false),
					"f": named(types.NamespacedName{Namespace: "n", Name: "f"}, true), "g": named(types.NamespacedName{Namespace: "n", Name: "g"}, true),
				}
			}})
			for _, p := range []pod{
				{uid: "a", source: "file", name: types.NamespacedName{Namespace: "n", Name: "a"}},
				{uid: "f", source: "file", name: types.NamespacedName{Namespace: "n", Name: "f"}},
				{uid: "e", source: "file", name: types.NamespacedName{Namespace: "n", Name: "e"}},
				{uid: "d", source: "api", name: types.NamespacedName{Namespace: "n", Name: "d"}},
			} {
				c.statuses.entryOf(&p)
			}
			check := func(lost, toKubelet, toSources int) {
				t.Helper()
				want := fmt.Sprintf(`
# HELP podconfigd_kubelet_pods_api_lost 1 while the kubelet gives no status of pods, although it did before, it serves its socket, or the path of its socket is configured; otherwise 0.
# TYPE podconfigd_kubelet_pods_api_lost gauge
podconfigd_kubelet_pods_api_lost %d
# HELP podconfigd_kubelet_pods_api_unknown_pods Number of pods that one side does not have: the kubelet, or the sources. 0 while the kubelet gives no status of pods.
# TYPE podconfigd_kubelet_pods_api_unknown_pods gauge
podconfigd_kubelet_pods_api_unknown_pods{to="kubelet"} %d
podconfigd_kubelet_pods_api_unknown_pods{to="sources"} %d
`, lost, toKubelet, toSources)
				if err := prometheustest.GatherAndCompare(registry, strings.NewReader(want), "podconfigd_kubelet_pods_api_lost", "podconfigd_kubelet_pods_api_unknown_pods"); err != nil {
					t.Error(err)
				}
			}
			check(0, 0, 0)
			c.setConnected(t.Context())
			wantSources := []string{"n/e"}
			if apiserver {
				wantSources = []string{"n/d", "n/e"}
			}
			check(0, 2, len(wantSources))
			if r := c.Report(); r.Pods != 4 || !slices.Equal(r.UnknownToKubelet, []string{"m/c", "n/b"}) || !slices.Equal(r.UnknownToSources, wantSources) {
				t.Errorf("%+v", r)
			}
			c.lost(t.Context(), errSilent)
			check(0, 2, len(wantSources)) // it may be back at once
			c.goneAway(t.Context())
			check(1, 0, 0)
		})
	}
}

// Ask waits for the kubelet, but not for one that does not answer.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := New(Options{}), time.Now()
		time.AfterFunc(AskTimeout/2, func() { close(c.first) })
		if c.Ask(t.Context()); time.Since(began) != AskTimeout/2 {
			t.Errorf("it waited for %v", time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c, began := New(Options{}), time.Now()
		if c.Ask(t.Context()); time.Since(began) != AskTimeout {
			t.Errorf("it waited for %v", time.Since(began))
		}
	})
}

// TestConfigure changes the path and the interval while the Client runs. After a change of the path, nothing of the
// earlier kubelet is left.
func TestConfigure(t *testing.T) {
	serve := func(uid types.UID, lists chan<- types.UID) string {
		k := &badKubelet{
			watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
				_ = stream.Send(event(t, podsv1alpha1.EventType_ADDED, uid))
				_ = stream.Send(synced)
				<-stream.Context().Done()
				return nil
			},
			list: func(context.Context) (*podsv1alpha1.ListPodsResponse, error) {
				select {
				case lists <- uid:
				default:
				}
				return &podsv1alpha1.ListPodsResponse{Pods: [][]byte{event(t, 0, uid).GetPod()}}, nil
			},
		}
		return k.serve(t)
	}
	lists := make(chan types.UID, 1)
	one, other := serve("one", lists), serve("other", lists)
	c := New(Options{Path: None, Interval: time.Hour})
	run(t, c)
	c.Ask(t.Context())
	if c.Enabled() || c.Report() != nil {
		t.Errorf("%+v", c.Report())
	}
	has := func(uid types.UID) {
		t.Helper()
		testutil.Until(t, "the status of "+string(uid), func() bool { status, live := c.Status(uid); return status != nil && live })
	}
	c.Configure(one, time.Hour)
	has("one")
	c.Configure(other, time.Hour)
	has("other")
	if status, _ := c.Status("one"); status != nil || len(lists) > 0 {
		t.Errorf("%+v is still there, %d lists", status, len(lists))
	}
	c.Configure(other, time.Hour) // the session goes on
	c.mu.Lock()
	if c.next != nil {
		t.Error("the same settings are taken again")
	}
	c.mu.Unlock()
	c.Configure(other, 10*time.Millisecond)
	if uid := <-lists; uid != "other" {
		t.Errorf("%s is asked", uid)
	}
	has("other")
	c.Changed()
	c.Configure(None, time.Hour)
	testutil.Until(t, "nothing is known any more", func() bool { status, live := c.Status("other"); return status == nil && !live })
	if uids := c.Changed(); !slices.Equal(uids, []types.UID{"other"}) || c.Enabled() || c.Report() != nil {
		t.Errorf("%v, %+v", uids, c.Report())
	}
	c.Configure(Auto, time.Hour)
	testutil.Until(t, "it is auto", c.Enabled)
}

// TestUnreadyKubelet: a kubelet 1.36 that has just started lists the pods that its sources have given so far. The last status of
// a pod that a source has stands. If the kubelet does not have the pod after the interval, the status is gone.
func TestUnreadyKubelet(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var once sync.Once
	again := make(chan struct{}, 1)
	again <- struct{}{}
	k := &badKubelet{
		watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
			select {
			case <-again: // the kubelet before its restart
				for _, uid := range []types.UID{"a", "b", "gone"} {
					_ = stream.Send(event(t, podsv1alpha1.EventType_ADDED, uid))
				}
				_ = stream.Send(synced)
				return nil
			default:
			}
			_ = stream.Send(synced)
			_ = stream.Send(event(t, podsv1alpha1.EventType_ADDED, "b"))
			<-stream.Context().Done()
			return nil
		},
		list: func(ctx context.Context) (*podsv1alpha1.ListPodsResponse, error) {
			once.Do(func() { close(asked) })
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return &podsv1alpha1.ListPodsResponse{Pods: [][]byte{event(t, 0, "b").GetPod()}}, nil
		},
	}
	has := func(c *Client) (uids []types.UID) {
		for _, uid := range []types.UID{"a", "b", "gone"} {
			if status, _ := c.Status(uid); status != nil {
				uids = append(uids, uid)
			}
		}
		return uids
	}
	c := k.run(t, time.Second, func(c *Client) {
		c.ours = func() map[types.UID]SourcePod {
			name := types.NamespacedName{Namespace: "default", Name: "a"}
			return map[types.UID]SourcePod{"a": {NamespacedName: name}, "b": {NamespacedName: name}}
		}
	})
	<-asked // the interval is over
	testutil.Until(t, "the status of the pod that a source has stands", func() bool {
		return slices.Equal(has(c), []types.UID{"a", "b"}) && slices.Equal(c.Report().UnknownToKubelet, []string{"default/a"})
	})
	close(answer)
	testutil.Until(t, "the status of the pod is gone", func() bool { return slices.Equal(has(c), []types.UID{"b"}) })
}

// TestStatics: of two static pods of one name, the kubelet ends the earlier one. A pod that it did not list is not one of its.
func TestStatics(t *testing.T) {
	c := New(Options{})
	name := types.NamespacedName{Namespace: "n", Name: "a"}
	c.setConnected(t.Context())
	for i := range 20 { // the order of a map is random
		uid := types.UID(strconv.Itoa(i))
		if _, err := c.statuses.event(&pod{uid: uid, name: name, source: "file"}, false); err != nil {
			t.Fatal(err)
		}
		if got := c.Statics()[name]; got != uid {
			t.Fatalf("%s, want %s", got, uid)
		}
	}
	c.statuses.forgetUnlisted(c.statuses.now(), c.statuses.begin(), map[types.UID]SourcePod{"19": {NamespacedName: name}})
	if got := c.Statics(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestStaticsOfOneList: of two static pods of one name in a list, the one counts that the kubelet saw later.
func TestStaticsOfOneList(t *testing.T) {
	name := types.NamespacedName{Namespace: "n", Name: "a"}
	for want, seen := range map[types.UID][2]string{ // of a and b
		"a": {"2026-11-27T06:00:00.12Z", "2026-11-27T06:00:00.1Z"},
		"b": {"2026-11-27T07:00:00+02:00", "2026-11-27T05:00:01Z"},
		"c": {"", ""}, // two that do not say it
	} {
		for range 20 { // the order of a map is random
			c := New(Options{})
			c.setConnected(t.Context())
			list := c.statuses.begin()
			for i, uid := range []types.UID{"a", "b"} {
				if uid == "b" && want == "c" {
					uid = "c"
				}
				data, err := (&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: uid, Annotations: map[string]string{
					"kubernetes.io/config.seen": seen[i], "kubernetes.io/config.source": "file",
				}}}).Marshal()
				if err != nil {
					t.Fatal(err)
				}
				p, err := decode(data)
				if err == nil {
					_, err = c.statuses.listed(&p, c.statuses.now(), list)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := c.Statics()[name]; got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
	}
}

// TestOlderKubelet goes back to a kubelet without the API. Nothing is lost then, and the status is computed again.
func TestOlderKubelet(t *testing.T) {
	refused := fmt.Errorf("connecting: %w", syscall.ECONNREFUSED)
	for name, test := range map[string]struct {
		path  string
		err   error
		older bool
		want  bool
	}{
		"auto":                     {Auto, refused, true, true},
		"auto_without_a_file":      {Auto, fs.ErrNotExist, true, true},
		"auto_with_our_own_socket": {Auto, errOurs, true, true},
		"a_path":                   {"/s", refused, true, false},
		"served":                   {Auto, errSilent, true, false},
		"no_other_kubelet":         {Auto, refused, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []time.Time
			c := New(Options{Path: test.path, Without: func(since time.Time, before bool) bool {
				if asked = append(asked, since); !before {
					t.Error("the Client forgot that a kubelet served the socket")
				}
				return test.older
			}})
			connect := func() {
				t.Helper()
				if err := c.statuses.began(podFor(t, "a"), 0, 0); err != nil {
					t.Fatal(err)
				}
				c.setConnected(t.Context())
				if !c.Enabled() || c.Report() == nil || !c.Report().Connected {
					t.Errorf("connected: enabled %t, %+v", c.Enabled(), c.Report())
				}
			}
			connect()
			c.Changed()
			for range 2 {
				c.lost(t.Context(), test.err)
				c.checkOlder(t.Context(), test.err)
			}
			status, _ := c.Status("a")
			if older := !c.Enabled(); older != test.want || (status == nil) != older || (c.Report() == nil) != older || older != slices.Contains(c.Changed(), "a") {
				t.Errorf("older %t, status %v, %+v", older, status, c.Report())
			}
			if len(asked) == 2 && !asked[0].Equal(asked[1]) {
				t.Errorf("the time since which nobody serves the socket changes: %v", asked)
			}
			connect()
		})
	}
}

// TestRetries connects less often to a socket that no kubelet has served yet. Each attempt wakes the daemon.
func TestRetries(t *testing.T) {
	for name, test := range map[string]struct {
		known bool
		want  time.Duration
	}{
		"no_kubelet_yet":         {false, absentRetry},
		"a_kubelet_that_is_away": {true, lastRetry},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts []time.Time
				c := New(Options{Path: Auto, Without: func(time.Time, bool) bool { attempts = append(attempts, time.Now()); return false }})
				c.path, c.known = filepath.Join(t.TempDir(), "s"), test.known
				ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
				defer cancel()
				_ = c.Run(ctx) // the cause of the context
				last := len(attempts) - 1
				if first := attempts[2].Sub(attempts[1]); first != firstRetry {
					t.Errorf("the second wait is %v", first)
				}
				if wait := attempts[last].Sub(attempts[last-1]); wait != test.want {
					t.Errorf("the last wait is %v, want %v", wait, test.want)
				}
			})
		})
	}
}

func podFor(t *testing.T, uid types.UID) *pod {
	t.Helper()
	p, err := decode(event(t, 0, uid).GetPod())
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// TestSinceReload: the configuration is reloaded, and the kubelet refuses the next watch. The status says since when there is none.
func TestSinceReload(t *testing.T) {
	var refuse atomic.Bool
	k := &badKubelet{watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
		if refuse.Load() {
			return errRateLimit
		}
		if err := stream.Send(synced); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}}
	c := k.run(t, time.Hour, func(*Client) {})
	testutil.Until(t, "the Client is connected", func() bool { return c.Report().Connected })
	refuse.Store(true)
	reloaded := time.Now()
	c.Configure(c.path, time.Minute)
	testutil.Until(t, "the kubelet is away", func() bool { return !c.Report().Connected })
	if since := c.Report().Since; since.Before(reloaded) {
		t.Errorf("no status since %v, which is %v before the reload", since, reloaded.Sub(*since))
	}
}
