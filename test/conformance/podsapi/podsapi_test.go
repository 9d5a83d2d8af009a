package podsapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const (
	changes  = 20_000
	rounds   = 10
	podCount = 100
	active   = 20 // of a round
	workers  = 4
	interval = 2 * time.Second
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // the server logs a line for each change
	os.Exit(m.Run())
}

// life is a pod and what the program did to it. Each status has the number of its change in its message.
type life struct {
	pod    *v1.Pod
	n      int
	status v1.PodStatus
	ready  bool
	// known is true once the client has a status of it.
	known atomic.Bool
}

// next changes the status in one of the ways of a kubelet.
func (l *life) next(r *rand.Rand) {
	l.n++
	s := l.status.DeepCopy()
	s.Phase, s.Message = v1.PodRunning, strconv.Itoa(l.n)
	if len(s.ContainerStatuses) == 0 {
		s.ContainerStatuses = []v1.ContainerStatus{{Name: "c", Image: "registry.example/image:1"}}
	}
	c := &s.ContainerStatuses[0]
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	switch r.IntN(6) {
	case 0, 1:
		l.ready = !l.ready
	case 2:
		c.RestartCount++
		c.ContainerID = fmt.Sprintf("containerd://%s-%d", l.pod.Name, c.RestartCount)
		c.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	case 3:
		c.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, FinishedAt: now, ContainerID: c.ContainerID}}
	case 4:
		c.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3, ContainerID: c.ContainerID}}
		c.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off " + s.Message}}
	case 5: // nothing but the message
	}
	c.Ready = l.ready
	state := v1.ConditionFalse
	if l.ready {
		state = v1.ConditionTrue
	}
	s.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: state}, {Type: v1.ContainersReady, Status: state}}
	l.status = *s
}

// number returns the number of the change in a status.
func number(s *v1.PodStatus) int {
	n, _ := strconv.Atoi(s.Message) // 0 if it has none
	return n
}

// watcher looks at what the client shows all the time.
type watcher struct {
	client *podsapi.Client
	lives  []*life

	mu       sync.Mutex
	longest  time.Duration // step back
	steps    int
	failures []string
}

func (w *watcher) run(ctx context.Context) {
	type seen struct {
		most  int
		since time.Time // of the step back
	}
	pods := make([]seen, len(w.lives))
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for i, l := range w.lives {
			if !l.known.Load() {
				continue
			}
			status, _ := w.client.Status(l.pod.UID)
			if status == nil || number(status) == 0 {
				w.fail("%s has no status any more, or a placeholder", l.pod.Name)
				return
			}
			p := &pods[i]
			switch n := number(status); {
			case n >= p.most:
				p.most, p.since = n, time.Time{}
			case p.since.IsZero():
				p.since = time.Now()
				w.step(0)
			default:
				w.step(time.Since(p.since))
			}
		}
	}
}

func (w *watcher) step(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if took == 0 {
		w.steps++
	}
	w.longest = max(w.longest, took)
}

func (w *watcher) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// TestChanges feeds the server with changes as fast as they come. It loses events in silence, delays events, drops the
// client, and restarts the kubelet. The last status of each pod is right in the end, and an older status never replaces a newer one.
func TestChanges(t *testing.T) {
	k := &kubelet{socket: filepath.Join(testutil.ShortDir(t), "s"), lost: 50, late: 50}
	lives := make([]*life, podCount)
	all := make([]*v1.Pod, podCount)
	for i := range lives {
		lives[i] = &life{pod: podOf(i)}
		all[i] = lives[i].pod
	}
	k.start(t, all...)
	t.Cleanup(func() { k.kill() })
	registry := prometheus.NewRegistry()
	client := podsapi.New(podsapi.Options{Path: k.socket, Interval: interval, Registerer: registry})
	w := &watcher{client: client, lives: lives}
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { _ = client.Run(ctx) }) // it ends with the context
	running.Go(func() { w.run(ctx) })
	running.Go(func() { follow(ctx, client) })

	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	slowest := time.Duration(0)
	for round := range rounds {
		seed := uint64(round)
		moving := lives[round*active%podCount:][:active]
		if round == 0 {
			moving = lives
		}
		if round == 5 {
			running.Go(func() { ask(ctx, k.socket, 3*time.Second) })
		}
		half := changes / rounds / 2
		var pause time.Duration
		if round%2 == 1 {
			pause = time.Millisecond // the client keeps up
		}
		change(k, moving, half, seed, pause)
		if round%3 == 2 {
			k.kill()
			started := time.Now()
			k.start(t, all...)
			testutil.Until(t, "the client has the pods of the new kubelet", func() bool {
				r := client.Report()
				return r.Connected && r.Since.After(started)
			})
			for _, l := range lives { // as the kubelet finds out
				k.set(l.pod, &l.status)
			}
		}
		change(k, moving, half, seed+1000, pause)
		slowest = max(slowest, settle(t, k, client, lives))
		for _, l := range lives {
			l.known.Store(l.n > 0)
		}
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d changes: right after at most %v; %d steps back, the longest %v; memory %+d KiB",
		changes, slowest.Round(time.Millisecond), w.steps, w.longest.Round(time.Millisecond), (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>10)
	counts := counted(t, registry)
	t.Logf("%v", counts)
	if counts["drops"] == 0 || counts["events"] < changes/4 {
		t.Errorf("the client was not dropped, or got few events: %v", counts)
	}
	if w.steps > 0 {
		t.Errorf("%d times, an older status replaced a newer one, for at most %v", w.steps, w.longest)
	}
	for _, failure := range w.failures {
		t.Error(failure)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("the memory has grown by %d bytes", grown)
	}
}

// counted returns the counters of the client, without what all have in common.
func counted(t *testing.T, registry *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, family := range families {
		name := strings.TrimSuffix(strings.TrimPrefix(family.GetName(), "podconfigd_kubelet_pods_api_"), "_total")
		for _, m := range family.GetMetric() {
			counts[name] += int(m.GetCounter().GetValue())
		}
	}
	return counts
}

// change makes changes from several goroutines, each with pods of its own and with a pause after each change.
func change(k *kubelet, lives []*life, n int, seed uint64, pause time.Duration) {
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			share := len(lives) / workers
			mine := lives[worker*share:][:share]
			for range n / workers {
				l := mine[r.IntN(share)]
				l.next(r)
				k.set(l.pod, &l.status)
				if pause > 0 {
					<-time.After(pause)
				}
			}
		})
	}
	running.Wait()
}

// settle waits until the client has the status of each pod that the kubelet has, and returns how long that took.
func settle(t *testing.T, k *kubelet, client *podsapi.Client, lives []*life) time.Duration {
	t.Helper()
	began := time.Now()
	testutil.Eventually(t, func() error {
		for _, l := range lives {
			if l.n == 0 {
				continue
			}
			theirs, _ := k.status(l.pod.UID)
			ours, live := client.Status(l.pod.UID)
			if ours == nil || !live {
				return fmt.Errorf("%s has no status", l.pod.Name)
			}
			if !equality.Semantic.DeepEqual(&theirs, ours) {
				return fmt.Errorf("%s: the status of the kubelet (-) differs:\n%s", l.pod.Name, cmp.Diff(&theirs, ours))
			}
		}
		return nil
	})
	return time.Since(began)
}

// follow takes the changes, as the sync loop does.
func follow(ctx context.Context, client *podsapi.Client) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-client.Watch():
			client.Changed()
		}
	}
}

// ask is another client of the kubelet that lists as fast as it can.
func ask(ctx context.Context, socket string, period time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return
	}
	defer conn.Close()
	for ctx.Err() == nil {
		_, _ = podsv1alpha1.NewPodsClient(conn).GetPod(ctx, &podsv1alpha1.GetPodRequest{PodUID: "none"}) // most are refused
	}
}

// TestFinal shows that a pod keeps the status with which it finished, until the kubelet removes it.
func TestFinal(t *testing.T) {
	k := &kubelet{socket: filepath.Join(testutil.ShortDir(t), "s")}
	l := &life{pod: podOf(0)}
	k.start(t, l.pod)
	t.Cleanup(func() { k.kill() })
	client := podsapi.New(podsapi.Options{Path: k.socket, Interval: time.Hour})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { _ = client.Run(ctx) }) // it ends with the context
	l.next(rand.New(rand.NewPCG(1, 1)))
	k.set(l.pod, &l.status)
	settle(t, k, client, []*life{l})
	k.finish(l.pod)
	settle(t, k, client, []*life{l})
	if status, _ := client.Status(l.pod.UID); status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("%+v", status.ContainerStatuses[0].State)
	}
	k.forget(l.pod)
	if status, _ := client.Status(l.pod.UID); status == nil {
		t.Error("the status was gone before the kubelet was asked")
	}
	k.kill()
	k.start(t)
	testutil.Until(t, "the pod is forgotten", func() bool { status, _ := client.Status(l.pod.UID); return status == nil })
}

// TestSilence loses every event. A list finds each status.
func TestSilence(t *testing.T) {
	k := &kubelet{socket: filepath.Join(testutil.ShortDir(t), "s"), lost: 1000}
	l := &life{pod: podOf(0)}
	k.start(t, l.pod)
	t.Cleanup(func() { k.kill() })
	const short = 200 * time.Millisecond
	client := podsapi.New(podsapi.Options{Path: k.socket, Interval: short})
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { _ = client.Run(ctx) }) // it ends with the context
	testutil.Until(t, "the client is connected", func() bool { return client.Report().Connected })
	r := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		l.next(r)
		k.set(l.pod, &l.status)
		t.Logf("a status that was lost in silence was found after %v", settle(t, k, client, []*life{l}))
	}
}
