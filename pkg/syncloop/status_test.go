package syncloop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// readings is a RecordReader whose readings the test sends.
type readings struct {
	mu        sync.Mutex
	requested []types.UID
	channel   chan podstatus.Reading
}

func (r *readings) Request(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requested = append(r.requested, uid)
}

func (r *readings) Forget(types.UID)                {}
func (r *readings) Watch() <-chan podstatus.Reading { return r.channel }

// statusHarness is a running loop that shows statuses.
type statusHarness struct {
	*harness
	readings *readings
	ips      []string
	// prepare is called before the loop runs.
	prepare func(*Loop)
}

// shown is a handler that records the status of each pod that it gets: its phase, the node's
// IP, and the state of its first container.
type shown struct{ *recorder }

func (s *shown) note(u config.PodUpdate) {
	line := u.Op.String()
	if u.StatusOnly {
		line += " status"
	}
	for i, pod := range u.Pods {
		status := pod.Status
		if len(u.Statuses) > i && u.Statuses[i] != nil {
			status = *u.Statuses[i]
		}
		line += fmt.Sprintf(" %s:%s", pod.UID, status.Phase)
		if status.HostIP != "" {
			line += " on " + status.HostIP
		}
		for _, c := range status.ContainerStatuses {
			line += " " + c.ContainerID
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen.Delete(u.Source)
	s.calls = append(s.calls, line)
}

func (s *shown) HandlePodAdditions(_ context.Context, u config.PodUpdate) { s.note(u) }
func (s *shown) HandlePodUpdates(_ context.Context, u config.PodUpdate)   { s.note(u) }
func (s *shown) HandlePodRemoves(_ context.Context, u config.PodUpdate)   { s.note(u) }
func (s *shown) HandlePodReconcile(_ context.Context, u config.PodUpdate) { s.note(u) }

func runStatus(t *testing.T, change func(*Options, *statusHarness)) *statusHarness {
	t.Helper()
	h := &statusHarness{
		harness: &harness{
			recorder: newRecorder("file"), updates: make(chan config.PodUpdate), events: &events{events: make(chan *pleg.PodLifecycleEvent)}, done: make(chan error, 1),
		},
		readings: &readings{channel: make(chan podstatus.Reading)}, ips: []string{"192.0.2.1"},
	}
	opts := Options{Handler: &shown{h.recorder}, SourcesReady: h.recorder, PLEG: h.events, Status: StatusOptions{
		Sources: []string{config.FileSource}, Records: h.readings,
		NodeIPs: func() []string { h.mu.Lock(); defer h.mu.Unlock(); return h.ips },
	}}
	if change != nil {
		change(&opts, h)
	}
	h.loop = New(opts)
	if h.prepare != nil {
		h.prepare(h.loop)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.cancel = cancel
	go func() { h.done <- h.loop.Run(ctx, h.updates) }()
	return h
}

// static returns a static pod of one container.
func static(name string) *v1.Pod {
	p := podtest.Pod(name+"=i", podtest.Static("hash-of-"+name), podtest.Phase(v1.PodPending))
	p.Spec.RestartPolicy = v1.RestartPolicyAlways
	return p
}

func (h *statusHarness) update(u config.PodUpdate) {
	h.updates <- u
	synctest.Wait()
}

func (h *statusHarness) add(source string, pods ...*v1.Pod) {
	h.update(config.PodUpdate{Op: config.ADD, Source: source, Pods: pods})
}

// running makes the runtime report a running container of the pod.
func (h *statusHarness) running(uid types.UID, id string) {
	h.readings.channel <- podstatus.Reading{UID: uid, Runtime: "containerd", Record: &podstatus.Record{
		Sandboxes: []*runtimeapi.PodSandboxStatus{{Id: "s", Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(uid)}, CreatedAt: 1}},
		Containers: []*runtimeapi.ContainerStatus{{
			Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
			CreatedAt: 2, StartedAt: 3, Image: &runtimeapi.ImageSpec{Image: "i"},
		}},
	}}
	synctest.Wait()
}

// An event of the runtime requests the record of its pod, and a change of the status is a
// RECONCILE. No change is none. What follows from the source has the status too.
func TestStatusIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		a := static("a")
		h.add("file", a)
		h.expect(t, "ADD a:Pending")
		h.events.events <- &pleg.PodLifecycleEvent{ID: "a", Type: pleg.ContainerStarted}
		h.events.events <- &pleg.PodLifecycleEvent{ID: "of-no-source", Type: pleg.ContainerStarted}
		synctest.Wait()
		if got := fmt.Sprint(h.readings.requested); got != "[a a]" {
			t.Errorf("requested %s", got)
		}
		h.calls = nil
		h.running("a", "1")
		h.expect(t, "RECONCILE status a:Running on 192.0.2.1 containerd://1")
		pass(5 * time.Second)
		h.running("a", "1")
		h.expect(t)
		changed := a.DeepCopy()
		changed.Labels = map[string]string{"a": "b"}
		h.update(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{changed}})
		h.expect(t, "UPDATE a:Running on 192.0.2.1 containerd://1")
		h.running("of-no-source", "1")
		h.update(config.PodUpdate{Op: config.REMOVE, Source: "file", Pods: []*v1.Pod{changed}})
		h.running("a", "2")
		h.expect(t, "REMOVE a:Pending")
		if n := len(h.loop.statuses.records); n > 0 {
			t.Errorf("%d records are kept", n)
		}
		h.stop(t)
	})
}

// A pod whose status can't be computed keeps its own, and the others have theirs.
func TestStatusPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, func(_ *Options, h *statusHarness) {
			h.prepare = func(l *Loop) {
				l.statuses.generate = func(in podstatus.Input) *v1.PodStatus {
					if in.Pod.Name == "bad" && len(in.Record.Containers) > 0 && in.Record.Containers[0].Id == "2" {
						panic("a fault")
					}
					return podstatus.Generate(in)
				}
			}
		})
		h.update(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{static("bad"), static("good")}})
		h.running("bad", "1")
		h.running("bad", "2")
		h.running("good", "2")
		h.running("bad", "3")
		h.expect(t, "ADD bad:Pending good:Pending",
			"RECONCILE status bad:Running on 192.0.2.1 containerd://1", "RECONCILE status bad:Pending",
			"RECONCILE status good:Running on 192.0.2.1 containerd://2", "RECONCILE status bad:Running on 192.0.2.1 containerd://3")
		h.stop(t)
	})
}

// A RECONCILE never comes between the updates of a set, which become visible together.
func TestStatusWaitsForTheEndOfASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		h.update(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{static("a")}, More: true})
		h.running("a", "1")
		pass(2 * housekeepingPeriod)
		h.update(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{static("b")}})
		h.expect(t, "ADD a:Pending", "ADD b:Pending", "RECONCILE status a:Running on 192.0.2.1 containerd://1")
		h.stop(t)
	})
}

// runs is the status of a container that runs.
func runs(id string) []v1.ContainerStatus {
	return []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
}

// Pods of the apiserver get a status only if that is configured and no kubelet wrote theirs.
func TestStatusOfAPIPods(t *testing.T) {
	pod := func(status v1.PodStatus) *v1.Pod {
		pod := static("a")
		pod.Annotations, pod.Status = nil, status
		return pod
	}
	now := metav1.Now()
	for _, test := range []struct {
		name    string
		sources []string
		status  v1.PodStatus
		want    []string
	}{
		{"not configured", []string{"file"}, v1.PodStatus{Phase: v1.PodPending}, []string{"ADD a:Pending"}},
		{"a kubelet writes it", []string{"file", "api"}, v1.PodStatus{Phase: v1.PodPending, StartTime: &now}, []string{"ADD a:Pending"}},
		{"nobody writes it", []string{"file", "api"}, v1.PodStatus{Phase: v1.PodPending}, []string{
			"ADD a:Pending", "RECONCILE status a:Running on 192.0.2.1 containerd://1",
		}},
		{"turned off", nil, v1.PodStatus{Phase: v1.PodPending}, []string{"ADD a:Pending"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runStatus(t, func(opts *Options, _ *statusHarness) { opts.Status.Sources = test.sources })
				h.add("api", pod(test.status))
				select {
				case h.readings.channel <- podstatus.Reading{}:
					h.running("a", "1")
				case <-time.After(time.Second):
					if test.sources != nil {
						t.Error("no reading is taken")
					}
				}
				h.expect(t, test.want...)
				h.stop(t)
			})
		})
	}
}

// A new address of the node changes the statuses.
func TestStatusFollowsTheNodesAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, func(opts *Options, _ *statusHarness) { opts.Status.Records = nil })
		a := static("a")
		a.Spec.HostNetwork = true
		h.add("file", a, static("b"))
		h.expect(t, "ADD a:Pending on 192.0.2.1 b:Pending")
		pass(2 * housekeepingPeriod)
		h.mu.Lock()
		h.ips = []string{"192.0.2.2"}
		h.mu.Unlock()
		pass(2 * housekeepingPeriod)
		h.expect(t, "RECONCILE status a:Pending on 192.0.2.2")
		h.stop(t)
	})
}

// An address that is found between New and Run is in the first status.
func TestTheFirstStatusHasTheNodesAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, func(opts *Options, h *statusHarness) {
			opts.Status.Records = nil
			h.ips = nil
			h.prepare = func(*Loop) { h.ips = []string{"192.0.2.1"} }
		})
		a := static("a")
		a.Spec.HostNetwork = true
		h.add("file", a)
		h.expect(t, "ADD a:Pending on 192.0.2.1")
		h.stop(t)
	})
}

// A record can be older than the end of its pod in the runtime, of which the loop has the event
// already. Then it is requested again.
func TestALateRecordIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		h.events.has("a")
		h.add("file", static("a"))
		h.events.has()
		h.events.events <- &pleg.PodLifecycleEvent{ID: "a", Type: pleg.ContainerRemoved}
		synctest.Wait()
		h.readings.requested = nil
		h.running("a", "1")
		if got := fmt.Sprint(h.readings.requested); got != "[a]" {
			t.Errorf("after a late record, requested %s", got)
		}
		h.readings.channel <- podstatus.Reading{UID: "a", Record: new(podstatus.Record)}
		synctest.Wait()
		if got := fmt.Sprint(h.readings.requested); got != "[a]" {
			t.Errorf("after the last record, requested %s", got)
		}
		h.stop(t)
	})
}

// A node that loses its default route for a moment keeps its address.
func TestStatusKeepsTheNodesAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runStatus(t, nil)
		set := func(ips ...string) {
			h.mu.Lock()
			h.ips = ips
			h.mu.Unlock()
			pass(2 * housekeepingPeriod)
		}
		h.add("file", static("a"))
		h.running("a", "1")
		h.expect(t, "ADD a:Pending", "RECONCILE status a:Running on 192.0.2.1 containerd://1")
		set()
		set("192.0.2.1")
		h.expect(t)
		set()
		set("192.0.2.2")
		h.expect(t, "RECONCILE status a:Running on 192.0.2.2 containerd://1")
		h.stop(t)
	})
}

// The QoS class is that of the kubelet, also when another one is found.
func TestStatusFollowsTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var minor atomic.Int64
		minor.Store(36)
		h := runStatus(t, func(opts *Options, _ *statusHarness) { opts.Status.Minor = func() int { return int(minor.Load()) } })
		one := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1Gi")}
		a := static("a")
		a.Spec.Resources = new(v1.ResourceRequirements)
		a.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: one, Limits: one}
		class := func() v1.PodQOSClass { return h.loop.pods.byUID["a"][0].status.QOSClass }
		h.add("file", a)
		h.running("a", "1")
		if got := class(); got != v1.PodQOSBestEffort {
			t.Errorf("1.36: %s", got)
		}
		minor.Store(37)
		pass(2 * housekeepingPeriod)
		if got := class(); got != v1.PodQOSGuaranteed {
			t.Errorf("1.37: %s", got)
		}
		h.stop(t)
	})
}

// A runtime can lack a container for a moment, for example while it restarts. If it then has the same container, that one was
// not restarted. Another one was.
func TestAContainerThatReturns(t *testing.T) {
	for name, test := range map[string]struct {
		records  []string // the ID of the container in each record of the runtime; empty for none
		restarts int32
	}{
		"the same":                   {[]string{"1", "", "1"}, 0},
		"the same, after two lists":  {[]string{"1", "", "", "1"}, 0},
		"the same, twice":            {[]string{"1", "", "1", "", "1"}, 0},
		"another":                    {[]string{"1", "", "2"}, 1},
		"another, which is lacking":  {[]string{"1", "", "2", "", "2"}, 1},
		"the same, and then another": {[]string{"1", "", "1", "", "2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runStatus(t, nil)
				h.add("file", static("a"))
				for _, id := range test.records {
					if id != "" {
						h.running("a", id)
						continue
					}
					h.readings.channel <- podstatus.Reading{UID: "a", Record: new(podstatus.Record)}
					synctest.Wait()
				}
				h.stop(t)
				c := h.loop.pods.podOf("file", "a").status.ContainerStatuses[0]
				exited := c.LastTerminationState.Terminated != nil
				if c.State.Running == nil || c.RestartCount != test.restarts || exited != (test.restarts > 0) {
					t.Errorf("the container is %+v, want it running, with %d restarts", c, test.restarts)
				}
			})
		})
	}
}
