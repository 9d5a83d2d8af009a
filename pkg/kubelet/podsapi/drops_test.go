package podsapi

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	prometheustest "github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestLostAfterADrop: a drop is usual, so it is not logged. That the kubelet is gone after a drop is logged.
func TestLostAfterADrop(t *testing.T) {
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	drop := fmt.Errorf("%w: %w", errDropped, status.Error(codes.ResourceExhausted, "dropped"))
	c := New(Options{Path: "/s"})
	c.setConnected(ctx)
	lines = nil
	c.lost(ctx, drop)
	c.lost(ctx, drop)
	c.setConnected(ctx)
	c.lost(ctx, drop)
	if len(lines) > 0 {
		t.Errorf("drops are logged: %q", lines)
	}
	c.lost(ctx, errSilent)
	if len(lines) != 1 || !strings.Contains(lines[0], errSilent.Error()) {
		t.Errorf("logged: %q", lines)
	}
	if c.setConnected(ctx); len(lines) != 2 {
		t.Errorf("logged: %q", lines)
	}
	c.lost(ctx, drop)
	c.lost(ctx, errRateLimit)
	c.lost(ctx, errRateLimit)
	if len(lines) != 3 || !strings.Contains(lines[2], "rejected by rate limit") {
		t.Errorf("logged after a refusal: %q", lines)
	}
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
	testutil.Until(t, "the Client is connected again", func() bool {
		if status, _ := c.Status("a"); status == nil {
			t.Fatal("the Client forgot the status")
		}
		mu.Lock()
		defer mu.Unlock()
		return c.Report().Connected && len(opened) == refusals+2
	})
	if drops := prometheustest.ToFloat64(c.metrics.drops); drops != 1 {
		t.Errorf("%v drops", drops)
	}
	if wait := opened[2].Sub(opened[1]); wait < firstRetry {
		t.Errorf("a refused watch was opened again after %v", wait)
	}
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
