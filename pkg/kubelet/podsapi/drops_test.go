package podsapi

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestLog: what ends in less than awayAfter is not logged, however often it happens. While the kubelet is away, each error is logged
// once, and then that the kubelet is back.
func TestLog(t *testing.T) {
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	logged := func(want ...string) {
		t.Helper()
		if len(lines) != len(want) {
			t.Fatalf("logged: %q, want %q", lines, want)
		}
		for i, text := range want {
			if !strings.Contains(lines[i], text) {
				t.Errorf("logged: %q, want %q", lines[i], text)
			}
		}
		lines = nil
	}
	drop := fmt.Errorf("%w: %w", errDropped, status.Error(codes.ResourceExhausted, "dropped"))
	c := New(Options{Path: "/s"})
	c.setConnected(ctx)
	logged("The kubelet gives the status")
	for range 3 {
		c.lost(ctx, drop)
		c.lost(ctx, errRateLimit)
		if r := c.Report(); !r.Connected || r.LastError == "" {
			t.Errorf("in between: %+v", r)
		}
		c.setConnected(ctx)
		c.goneAway(ctx) // the timer may fire late
	}
	logged()
	c.lost(ctx, drop)
	c.lost(ctx, errSilent)
	c.goneAway(ctx)
	logged(errSilent.Error())
	for range 3 {
		c.lost(ctx, errRateLimit)
		c.lost(ctx, errSilent)
	}
	logged("rejected by rate limit")
	for i := range 2 * maxLogged {
		c.lost(ctx, fmt.Errorf("error %d", i))
	}
	if len(lines) != maxLogged-2 {
		t.Errorf("%d errors are logged", len(lines)+2)
	}
	lines = nil
	c.setConnected(ctx)
	logged("The kubelet gives the status")
	c.lost(ctx, errSilent)
	c.goneAway(ctx)
	logged(errSilent.Error())
	if c.setLate(ctx, time.Now()); len(lines) != 1 || strings.Contains(lines[0], "m=+") { // of the monotonic clock
		t.Errorf("logged: %q", lines)
	}
}

// TestNeverAStatus: somebody serves the socket of auto, and gives no status. That is not hidden.
func TestNeverAStatus(t *testing.T) {
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	c := New(Options{Path: Auto})
	if c.lost(ctx, errRateLimit); c.Report() != nil {
		t.Errorf("at once: %+v", c.Report())
	}
	c.goneAway(ctx)
	if r := c.Report(); r == nil || r.Connected || r.Since != nil || r.LastError == "" {
		t.Errorf("%+v", r)
	}
	if len(lines) != 1 || strings.Contains(lines[0], "stands") {
		t.Errorf("logged: %q", lines)
	}
	if c.lost(ctx, fs.ErrNotExist); c.Report() != nil {
		t.Errorf("without a socket: %+v", c.Report())
	}
	lines = nil
	if again := c.lost(ctx, status.Error(codes.Unavailable, "starting")); !again || c.Report() != nil || len(lines) > 0 {
		t.Errorf("a kubelet that has just started: %+v, logged: %q", c.Report(), lines)
	}
	if again := c.lost(ctx, errSilent); again {
		t.Error("the time until it is away begins again")
	}
	if c.goneAway(ctx); c.Report() == nil || len(lines) != 1 {
		t.Errorf("later: %+v, logged: %q", c.Report(), lines)
	}
}

// TestAwayAfterAReload: the time until the kubelet is away begins with the configuration of its socket.
func TestAwayAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var logged []time.Time
		logger := funcr.New(func(string, string) { mu.Lock(); defer mu.Unlock(); logged = append(logged, time.Now()) }, funcr.Options{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		c := New(Options{Path: None, Interval: time.Hour})
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) }) // it ends with the context
		for range 2 {
			<-time.After(time.Minute)
			began := time.Now()
			c.Configure(filepath.Join(t.TempDir(), "s"), time.Hour)
			<-time.After(time.Minute)
			synctest.Wait()
			mu.Lock()
			if len(logged) != 1 || logged[0].Sub(began) != awayAfter {
				t.Errorf("logged at %v, configured at %v", logged, began)
			}
			logged = nil
			mu.Unlock()
		}
		cancel()
		running.Wait()
	})
}

// errRateLimit is the refusal of a kubelet.
//
// kubelet: pkg/kubelet/apis/grpc/ratelimit.go ErrorLimitExceeded.
var errRateLimit = status.Error(codes.ResourceExhausted, "rejected by rate limit")

// TestRefusedWatch: a kubelet 1.38 drops the watch, and then refuses to open another one, because its clients open too many. That is no
// drop: it is retried with a wait, and what is known stays.
func TestRefusedWatch(t *testing.T) {
	const refusals = 3
	var mu sync.Mutex
	var opened []time.Time
	drop := make(chan struct{})
	k := &badKubelet{watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
		mu.Lock()
		opened = append(opened, time.Now())
		n := len(opened)
		mu.Unlock()
		if 1 < n && n <= 1+refusals {
			return errRateLimit
		}
		for _, e := range []*podsv1alpha1.WatchPodsEvent{event(t, podsv1alpha1.EventType_ADDED, "a"), synced} {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		if n == 1 {
			<-drop
			return status.Error(codes.ResourceExhausted, "watch client channel closed")
		}
		<-stream.Context().Done()
		return nil
	}}
	c := k.run(t, time.Hour, func(*Client) {})
	testutil.Until(t, "the Client is connected", func() bool { return c.Report().Connected })
	close(drop)
	testutil.Until(t, "the Client watches again", func() bool {
		if status, _ := c.Status("a"); status == nil {
			t.Fatal("the Client forgot the status")
		}
		return prometheustest.ToFloat64(c.metrics.watches) == 2
	})
	if drops := prometheustest.ToFloat64(c.metrics.drops); drops != 1 {
		t.Errorf("%v drops", drops)
	}
	if refused := prometheustest.ToFloat64(c.metrics.refusals.WithLabelValues(watchPods)); refused != refusals {
		t.Errorf("%v refused", refused)
	}
	mu.Lock()
	defer mu.Unlock()
	if wait := opened[2].Sub(opened[1]); wait < firstRetry {
		t.Errorf("a refused watch was opened again after %v", wait)
	}
}

// TestRefusedRequests: the kubelet refuses all requests, because its clients send too many. The watch goes on, since a kubelet 1.38 may
// refuse to open another one, and the Client asks again until it gets an answer.
func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = time.Second
		var mu sync.Mutex // guards what follows
		var lists, gets []time.Time
		answer := false
		api := &fakeAPI{
			list: func() (*podsv1alpha1.ListPodsResponse, error) {
				mu.Lock()
				defer mu.Unlock()
				lists = append(lists, time.Now())
				if !answer {
					return nil, errRateLimit
				}
				return &podsv1alpha1.ListPodsResponse{Pods: [][]byte{event(t, 0, "a").GetPod()}}, nil
			},
			get: func(uid types.UID) (*podsv1alpha1.GetPodResponse, error) {
				mu.Lock()
				defer mu.Unlock()
				gets = append(gets, time.Now())
				if !answer {
					return nil, errRateLimit
				}
				return &podsv1alpha1.GetPodResponse{Pod: event(t, 0, uid).GetPod()}, nil
			},
		}
		c := New(Options{Path: "/s", Interval: interval})
		s := &session{Client: c, api: api, limiter: rate.NewLimiter(maxRate, maxBurst), doubts: newDoubts()}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer func() { cancel(); running.Wait() }()
		running.Go(func() {
			if err := s.confirm(ctx); ctx.Err() == nil {
				t.Errorf("the watch ends: %v", err)
			}
		})
		s.doubts.addDoubts("a")
		<-time.After(time.Minute)
		synctest.Wait()
		mu.Lock()
		if len(gets) == 0 || len(lists) == 0 {
			t.Errorf("%d lists, %d gets", len(lists), len(gets))
		}
		since := time.Now().Add(interval - time.Minute).Format(time.DateTime)
		if text := c.Report().LastError; !strings.Contains(text, "refused to list its pods since "+since) {
			t.Errorf("the status says %q", text)
		}
		refused := [...]float64{prometheustest.ToFloat64(c.metrics.refusals.WithLabelValues(listPods)), prometheustest.ToFloat64(c.metrics.refusals.WithLabelValues(getPod))}
		if refused != [...]float64{float64(len(lists)), float64(len(gets))} {
			t.Errorf("refused: %v, want %d and %d", refused, len(lists), len(gets))
		}
		answer, lists, gets = true, nil, nil
		mu.Unlock()
		began := time.Now()
		<-time.After(10 * interval)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if text := c.Report().LastError; text != "" {
			t.Errorf("the status still says %q", text)
		}
		if status, _ := c.Status("a"); status == nil || len(gets) > 1 {
			t.Errorf("%d gets, status %v", len(gets), status)
		}
		if n := len(lists); n < 10 || n > 11 || lists[0].Sub(began) > 2*refusedRetry {
			t.Errorf("lists in ten intervals since %v: %v", began, lists)
		}
	})
}

// TestRefusedGets: the kubelet refuses half of the requests. The Client asks again only for the pods that it has no answer for.
func TestRefusedGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []types.UID
		api := &fakeAPI{get: func(uid types.UID) (*podsv1alpha1.GetPodResponse, error) {
			asked = append(asked, uid)
			if len(asked)%2 == 0 {
				return nil, errRateLimit
			}
			return &podsv1alpha1.GetPodResponse{Pod: event(t, 0, uid).GetPod()}, nil
		}}
		s := &session{
			Client: New(Options{Path: "/s", Interval: time.Hour}), api: api, limiter: rate.NewLimiter(maxRate, maxBurst), doubts: newDoubts(),
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.confirm(ctx) }) // it ends with the context
		s.doubts.addDoubts("a", "b", "c", "d")
		<-time.After(time.Minute)
		cancel()
		running.Wait()
		if want := []types.UID{"a", "b", "b", "c", "c", "d", "d"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
	})
}

// TestListsWhileGetsAreRefused: the kubelet refuses GetPod, and answers ListPods. Nobody says that it refuses lists.
func TestListsWhileGetsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		s := &session{Client: New(Options{Path: "/s", Interval: time.Second}), limiter: rate.NewLimiter(maxRate, maxBurst), doubts: newDoubts()}
		s.api = &fakeAPI{
			list: func() (*podsv1alpha1.ListPodsResponse, error) {
				s.doubts.addDoubts("a") // as an event does after the answer
				return &podsv1alpha1.ListPodsResponse{Pods: [][]byte{event(t, 0, "a").GetPod()}}, nil
			},
			get: func(types.UID) (*podsv1alpha1.GetPodResponse, error) { return nil, errRateLimit },
		}
		var running sync.WaitGroup
		running.Go(func() { _ = s.confirm(ctx) }) // it ends with the context
		s.doubts.addDoubts("a")
		<-time.After(10 * time.Minute)
		cancel()
		running.Wait()
		if len(lines) > 0 {
			t.Errorf("logged %d lines: %q", len(lines), lines[0])
		}
	})
}

// TestReloadWhileListsAreRefused: the configuration is reloaded, and the kubelet then does not answer. The reason is not that it refused
// lists before.
func TestReloadWhileListsAreRefused(t *testing.T) {
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	c := New(Options{Path: "/s"})
	c.setConnected(ctx)
	c.setLate(ctx, time.Now())
	lines = nil
	c.lost(ctx, errConfigured)
	c.goneAway(ctx)
	if r := c.Report(); r.Connected || r.LastError != "" || len(lines) > 0 {
		t.Errorf("%+v, logged: %q", r, lines)
	}
	if c.lost(ctx, errSilent); len(lines) != 1 || !strings.Contains(lines[0], errSilent.Error()) {
		t.Errorf("logged: %q", lines)
	}
}

// fakeAPI answers requests without a connection, so that a test can use virtual time.
type fakeAPI struct {
	podsv1alpha1.PodsClient

	list func() (*podsv1alpha1.ListPodsResponse, error)
	get  func(types.UID) (*podsv1alpha1.GetPodResponse, error)
}

func (a *fakeAPI) ListPods(context.Context, *podsv1alpha1.ListPodsRequest, ...grpc.CallOption) (*podsv1alpha1.ListPodsResponse, error) {
	return a.list()
}

func (a *fakeAPI) GetPod(_ context.Context, r *podsv1alpha1.GetPodRequest, _ ...grpc.CallOption) (*podsv1alpha1.GetPodResponse, error) {
	return a.get(types.UID(r.GetPodUID()))
}

// TestDroppedList: the kubelet drops the watch before it has sent all pods.
func TestDroppedList(t *testing.T) {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	k := &badKubelet{watch: func(stream podsv1alpha1.Pods_WatchPodsServer) error {
		select {
		case <-first:
			_ = stream.Send(event(t, podsv1alpha1.EventType_ADDED, "a"))
			return status.Error(codes.ResourceExhausted, "watch client channel closed")
		default:
		}
		_ = stream.Send(synced)
		<-stream.Context().Done()
		return nil
	}}
	c := k.run(t, time.Hour, func(*Client) {})
	testutil.Until(t, "the Client is connected", func() bool { return c.Report().Connected })
	if drops := prometheustest.ToFloat64(c.metrics.drops); drops != 1 {
		t.Errorf("%v drops", drops)
	}
}
