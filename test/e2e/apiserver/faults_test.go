package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// mutator changes the pods of a node at random, and records its writes.
type mutator struct {
	c    *cluster
	node string

	mu    sync.Mutex
	steps map[string]int // the newest step of each name, written or attempted
	last  map[string]int // the newest step of each UID in the stream
	done  int
	late  int // the writes without an answer within a second
}

func newMutator(c *cluster, node string) *mutator {
	return &mutator{c: c, node: node, steps: make(map[string]int), last: make(map[string]int)}
}

// run changes pods until the context is done. It ignores errors, which the faults cause.
func (m *mutator) run(ctx context.Context) {
	random := rand.New(rand.NewPCG(1, 2))
	for ctx.Err() == nil {
		name := fmt.Sprintf("pod-%d", random.IntN(12))
		call, cancel := context.WithTimeout(ctx, time.Second) // short: a write may fail
		var err error
		switch random.IntN(10) {
		case 0, 1:
			_, err = m.c.Client.CoreV1().Pods("default").Create(call, newPod(name, m.node), metav1.CreateOptions{})
		case 2, 3, 4, 5:
			err = m.c.patch(call, name, fmt.Sprintf(`{"metadata":{"labels":{"step":"%d"}}}`, m.next(name)))
		case 6, 7:
			err = m.c.patch(call, name, fmt.Sprintf(`{"status":{"phase":"Running","message":"%d"}}`, random.Int()), "status")
		case 8:
			err = m.c.delete(call, name, 30)
		case 9:
			err = m.c.delete(call, name, 0)
		}
		late := call.Err() != nil
		cancel()
		m.mu.Lock()
		switch {
		case err == nil:
			m.done++
		case late:
			m.late++
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (m *mutator) next(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps[name]++
	return m.steps[name]
}

func (m *mutator) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

func (m *mutator) lateWrites() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.late
}

// failures returns how many requests to the apiserver have failed.
func failures(t *testing.T, d *e2e.Daemon) (n int) {
	t.Helper()
	_, _, metrics := d.Ask(t, "/metrics")
	_, value, _ := strings.Cut(metrics, "\npodconfigd_api_source_failures_total{source=\"api\"} ")
	value, _, _ = strings.Cut(value, "\n")
	return atoi(t, value)
}

// check compares a pod of the stream with the writes.
func (m *mutator) check(op v1alpha1.Op, pod *v1.Pod) error {
	if pod.Annotations["kubernetes.io/config.source"] != "api" {
		return nil
	}
	if pod.Spec.NodeName != m.node {
		return fmt.Errorf("%s %s is of node %s", op, pod.Name, pod.Spec.NodeName)
	}
	step, err := strconv.Atoi(pod.Labels["step"])
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, pod.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if step > m.steps[pod.Name] {
		return fmt.Errorf("%s %s has step %d, which nobody wrote", op, pod.Name, step)
	}
	if last := m.last[string(pod.UID)]; step < last && op != v1alpha1.OpRemove {
		return fmt.Errorf("%s %s went from step %d back to %d", op, pod.Name, last, step)
	}
	m.last[string(pod.UID)] = step
	return nil
}

// describe returns the part of a pod that must be equal at both ends.
func describe(pod *v1.Pod) string {
	return fmt.Sprintf("%s %s step %s phase %s %q deleted %t", pod.Name, pod.UID, pod.Labels["step"],
		pod.Status.Phase, pod.Status.Message, pod.DeletionTimestamp != nil)
}

// agrees waits until the pods of the stream equal the node's pods in the apiserver. It lists them
// again each time, because the apiserver may still carry out a request whose client is gone.
func (c *cluster) agrees(t *testing.T, f *e2e.Replica, node string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // short: it is tried again
		defer cancel()
		list, err := c.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		var want, got []string
		for i := range list.Items {
			want = append(want, describe(&list.Items[i]))
		}
		for _, pod := range f.State() {
			if pod.Annotations["kubernetes.io/config.source"] == "api" {
				got = append(got, describe(pod))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the pods of the apiserver (-) and of the stream (+): %s", diff)
		}
		return nil
	})
}

// For any fault between the daemon and the apiserver, no update is lost, duplicated or
// invented, and static pods are delivered.
func apiserverFaults(t *testing.T, c *cluster) {
	c.addNode(t, "faults")
	proxy := components.NewProxy(t, c.Address)
	path := filepath.Join(testutil.ShortDir(t), "kubeconfig")
	conf := components.NewKubeconfig("https://"+proxy.Address, c.Authority.PEM)
	conf.AuthInfos["user"].Token = components.User + "-token"
	components.WriteKubeconfig(t, path, conf)
	d := c.daemon(t, "faults", path)
	m := newMutator(c, "faults")
	f := e2e.FollowWith(t, d, m.check)

	statics := 0
	// static adds a static pod during a fault.
	static := func(t *testing.T) {
		t.Helper()
		statics++
		name := fmt.Sprintf("static-%d", statics)
		d.Put(t, name, "image")
		f.Await(t, name, func(map[string]*v1.Pod) bool {
			for _, pod := range f.StateLocked() {
				if strings.HasPrefix(pod.Name, name+"-") {
					return true
				}
			}
			return false
		})
	}
	for _, fault := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"connections are cut", func(*testing.T) {
			for range 20 {
				proxy.Cut()
				<-time.After(100 * time.Millisecond)
			}
		}},
		{"what is said comes late", func(t *testing.T) {
			proxy.Delay(300 * time.Millisecond)
			static(t)
			<-time.After(2 * time.Second)
			proxy.Cut()
			<-time.After(2 * time.Second)
			proxy.Delay(0)
		}},
		{"connections are half-closed", func(*testing.T) {
			for range 10 {
				proxy.HalfClose()
				<-time.After(200 * time.Millisecond)
			}
		}},
		{"nothing gets through", func(t *testing.T) {
			proxy.Hold()
			static(t)
			<-time.After(2 * time.Second)
			proxy.Cut()
			proxy.Release()
		}},
		{"the apiserver is gone", func(t *testing.T) {
			c.APIServer.Kill(t)
			begin := time.Now()
			testutil.Until(t, "degraded", func() bool { return api(t, d).Degraded })
			t.Logf("after %v: %s", time.Since(begin).Round(time.Millisecond), api(t, d).LastError)
			before, failed := f.State(), failures(t, d)
			static(t)
			testutil.Until(t, "it waits long", func() bool { return failures(t, d) > failed+2 })
			if now := f.State(); len(now) < len(before) {
				t.Errorf("%d pods before, %d after", len(before), len(now))
			}
			c.APIServer.Start(t)
			c.AwaitAPIServer(t)
			begin = time.Now()
			testutil.Until(t, "healthy", func() bool { return !api(t, d).Degraded && api(t, d).API.Connected })
			t.Logf("back %v after the apiserver", time.Since(begin).Round(time.Millisecond))
		}},
		{"etcd is gone", func(t *testing.T) {
			c.Etcd.Kill(t)
			static(t)
			late := m.lateWrites()
			testutil.Until(t, "writes are late", func() bool { return m.lateWrites() > late+2 })
			c.Etcd.Start(t)
			c.AwaitEtcd(t)
			c.AwaitAPIServer(t)
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var running sync.WaitGroup
			writes := m.writes()
			running.Go(func() { m.run(ctx) })
			testutil.Until(t, "writes before", func() bool { return m.writes() > writes+50 })
			fault.run(t)
			writes = m.writes()
			testutil.Until(t, "writes after", func() bool { return m.writes() > writes+50 })
			cancel()
			running.Wait()
			begin := time.Now()
			c.agrees(t, f, "faults")
			api := api(t, d).API
			t.Logf("agreed after %v; %d relists, %d watch restarts; updates %v", time.Since(begin).Round(time.Millisecond),
				api.Relists, api.WatchRestarts, f.Counts())
			if err := f.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
