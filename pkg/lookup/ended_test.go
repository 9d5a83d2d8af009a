package lookup

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// withStatus gives a pod the status of one container, which has run before.
func withStatus(p *v1.Pod, id, before string) *v1.Pod {
	exit := func(id string, code int32) *v1.ContainerStateTerminated {
		return &v1.ContainerStateTerminated{
			ContainerID: "containerd://" + id, ExitCode: code, Message: "long",
			StartedAt: metav1.NewTime(time.Unix(1000, 0)), FinishedAt: metav1.NewTime(time.Unix(2000, 0)),
		}
	}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "app", ContainerID: "containerd://" + id, RestartCount: 3,
		State: v1.ContainerState{Terminated: exit(id, 3)}, LastTerminationState: v1.ContainerState{Terminated: exit(before, 9)},
	}}
	return p
}

// After the runtime has forgotten the containers of a pod that ended, the last status of the pod has them.
func TestContainersOfThePodsThatEnded(t *testing.T) {
	onNode(t, true, func(n *node) {
		web, id := withStatus(pod("web", "10.0.0.1"), "c1", "c0"), strings.Repeat("a", 64)
		other := withStatus(pod("other"), id, "d0")
		n.deliver(config.ADD, "api", web, other)
		n.expect("looking up container c1: the container runtime does not have it", Query{ContainerID: "c1"})
		n.deliver(config.REMOVE, "api", web, other)
		n.expect("api web ended app exited 3 ended", Query{ContainerID: "c1"})
		n.expect("api web ended app exited 9 ended", Query{ContainerID: "containerd://c0", Wait: time.Second})
		n.expect("api other ended app exited 3 ended", Query{Cgroup: "/kubepods/podother/" + id, Wait: time.Second})
		n.expect("api web ended app exited 3 ended", Query{LogPath: "/var/log/pods/default_web_web/app/3.log"})
		n.expect("api web ended app exited 9 ended", Query{LogPath: "/var/log/pods/default_web_web/app/2.log"})
		n.expect("api web ended app ?", Query{LogPath: "/var/log/pods/default_web_web/app/1.log"})
		n.expect("api web ended - ?", Query{Cgroup: "/kubepods/podweb/" + id}) // the container is of another pod
		n.deliver(config.ADD, "api", web)                                      // it is back
		n.expect("looking up container c1: the container runtime does not have it", Query{ContainerID: "c1"})
		n.deliver(config.REMOVE, "api", web)
		n.expect("api web ended app exited 3 ended", Query{ContainerID: "c1"})
		n.pass(retention + time.Second)
		n.expect("looking up container c1: the container runtime does not have it", Query{ContainerID: "c1"})
		n.pods.mu.Lock()
		defer n.pods.mu.Unlock()
		if e := n.pods.ended; len(e.all)+len(e.byUID)+len(e.byStatic)+len(e.byIP)+len(e.byContainer) > 0 {
			t.Errorf("what is left: %+v", e)
		}
	})
}

// Pods that are large when they end do not take more memory than many small ones.
func TestLargePodsThatEnded(t *testing.T) {
	e := newEnded(time.Hour, 8)
	for i := range 8 {
		p := pod(fmt.Sprint("large", i))
		p.Labels = map[string]string{"long": strings.Repeat("x", 2*maxEndedPod)}
		p.Annotations = map[string]string{networkStatus: strings.Repeat(" ", maxEndedPod+1)}
		e.add(journal.NewPod("api", p), time.Now())
	}
	if len(e.all) != 3 || e.ofUID("large7") == nil || e.ofUID("large4") != nil {
		t.Errorf("%d pods of %d bytes are left", len(e.all), e.bytes)
	}
	for i := range 3 {
		e.remove(types.UID(fmt.Sprint("large", 5+i)))
	}
	if e.bytes != 0 {
		t.Errorf("%d bytes are left", e.bytes)
	}
}

// An IP answers for the pod that has it, and at a time for the one that had it then.
func TestAnIPAtATime(t *testing.T) {
	onNode(t, false, func(n *node) {
		began := time.Now()
		started := func(p *v1.Pod) *v1.Pod {
			p.Status.StartTime = &metav1.Time{Time: time.Now()}
			return p
		}
		first := started(pod("first", "10.0.0.1"))
		n.deliver(config.ADD, "api", first)
		n.pass(10 * time.Second)
		n.deliver(config.REMOVE, "api", first)
		n.pass(10 * time.Second)
		done := started(pod("done", "10.0.0.1"))
		done.Status.Phase = v1.PodSucceeded
		done.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(began.Add(30 * time.Second))},
		}}}
		n.deliver(config.ADD, "api", done)
		n.pass(20 * time.Second)
		n.deliver(config.ADD, "api", started(pod("second", "10.0.0.1")))
		n.expect("api second, api done, api first ended", Query{PodIP: "10.0.0.1"})
		for after, want := range map[time.Duration]string{
			-time.Second:     "looking up pod IP 10.0.0.1: no pod had it then",
			5 * time.Second:  "api first ended",
			15 * time.Second: "looking up pod IP 10.0.0.1: no pod had it then",
			25 * time.Second: "api done",
			35 * time.Second: "looking up pod IP 10.0.0.1: no pod had it then",
			45 * time.Second: "api second",
		} {
			n.expect(want, Query{PodIP: "10.0.0.1", At: began.Add(after), Wait: time.Second})
		}
		if faults := (&Query{PodUID: "first", At: began}).Validate(); len(faults) != 1 || faults[0].Name != "at" {
			t.Errorf("got %v", faults)
		}
	})
}

// The IP of a pod that failed in an init container is free after that.
func TestTheIPOfAPodThatFailedAtItsStart(t *testing.T) {
	onNode(t, false, func(n *node) {
		began := time.Now()
		failed := pod("failed", "10.0.0.1")
		failed.Status.Phase = v1.PodFailed
		failed.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{FinishedAt: metav1.NewTime(began.Add(5 * time.Second))},
		}}}
		failed.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Waiting: new(v1.ContainerStateWaiting)}}}
		n.deliver(config.ADD, "api", failed)
		n.pass(30 * time.Second)
		n.expect("api failed", Query{PodIP: "10.0.0.1", At: began.Add(2 * time.Second)})
		n.expect("looking up pod IP 10.0.0.1: no pod had it then", Query{PodIP: "10.0.0.1", At: began.Add(20 * time.Second)})
	})
}

// A lookup first reads what changed, also for a container that only the status of a pod has.
func TestAContainerOfAPodThatHasJustEnded(t *testing.T) {
	onNode(t, true, func(n *node) {
		web := withStatus(pod("web", "10.0.0.1"), "c1", "c0")
		n.deliver(config.ADD, "api", web)
		idle := New(Options{Journal: n.journal, Runtime: n.Lookup.runtime, Retention: retention, MaxEnded: maxEnded})
		idle.pods.sync()
		n.deliver(config.REMOVE, "api", web)
		if answer, err := idle.Find(n.t.Context(), nil, &Query{ContainerID: "c1"}); err != nil || answer.Pods[0].Name != "web" {
			t.Errorf("got %+v, %v", answer, err)
		}
	})
}

// If the clock was set back, the log has times that have not come yet.
func TestPodsThatEndInTheFuture(t *testing.T) {
	onNode(t, false, func(n *node) {
		n.pods.addPast(journal.NewPod("api", pod("web")).At(7), time.Now().Add(24*time.Hour))
		n.expect("api web ended", Query{PodUID: "web"})
		n.pass(retention + time.Second)
		n.expect("looking up pod UID web: no source has it", Query{PodUID: "web"})
	})
}

// At a start, the log has the pods that ended before. Until it is read, what is not known is no answer.
func TestPodsThatEndedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, read := time.Now(), make(chan struct{})
		version := func(name string) *journal.Pod { return journal.NewPod("api", pod(name, "10.0.0.1")).At(7) }
		past := func(since time.Time) iter.Seq2[*journal.Pod, time.Time] {
			if !since.Equal(began.Add(-retention)) {
				t.Errorf("since %v, want %v", since, began.Add(-retention))
			}
			return func(yield func(*journal.Pod, time.Time) bool) {
				<-read
				_ = yield(version("old"), began.Add(-30*time.Second)) && yield(version("back"), began.Add(-20*time.Second)) &&
					yield(version("again"), began.Add(-20*time.Second)) && yield(version("late"), began.Add(-10*time.Second))
			}
		}
		j := journal.New(journal.Options{Sources: []string{"api"}})
		n := &node{t: t, journal: j, Lookup: New(Options{Journal: j, Retention: retention, MaxEnded: 3, Past: past})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.Run(ctx) }()
		n.deliver(config.ADD, "api", pod("back"), pod("again"))
		n.expect("looking up pod UID old: the pods that ended before the start are not known yet", Query{PodUID: "old"})
		n.deliver(config.REMOVE, "api", pod("again"))
		close(read)
		synctest.Wait()
		n.expect("api old ended", Query{PodUID: "old"})
		n.expect("api back", Query{PodUID: "back"})
		n.expect("api late ended, api old ended", Query{PodIP: "10.0.0.1"})
		answer, err := n.Find(ctx, nil, &Query{PodUID: "again"})
		if err != nil || !answer.Pods[0].Ended.Equal(began) {
			t.Errorf("got %+v, %v: want the later end", answer, err)
		}
		n.expect("looking up pod UID none: no source has it", Query{PodUID: "none"})
		cancel()
		<-ended
	})
}

// A whole pod that ended comes from the log.
func TestWholePodsThatEnded(t *testing.T) {
	onNode(t, false, func(n *node) {
		n.deliver(config.ADD, "api", pod("web", "10.0.0.1"))
		n.deliver(config.REMOVE, "api", pod("web", "10.0.0.1"))
		at := time.Now()
		for name, test := range map[string]struct {
			log  func(context.Context, map[types.UID]time.Time) map[types.UID]*journal.Pod
			want string
		}{
			"no log": {nil, "<nil> it has ended, and only a log has whole pods that ended: start podconfigd with --state-dir"},
			"a log": {func(_ context.Context, when map[types.UID]time.Time) map[types.UID]*journal.Pod {
				if len(when) != 1 || !when["web"].Equal(at) {
					t.Errorf("at %v, want %v", when, at)
				}
				return map[types.UID]*journal.Pod{"web": journal.NewPod("api", pod("web"))}
			}, "Pod web "},
			"a log without it": {func(context.Context, map[types.UID]time.Time) map[types.UID]*journal.Pod {
				return nil
			}, "<nil> the journal in the state directory no longer has it"},
		} {
			n.wholePods = test.log
			answer, err := n.Find(t.Context(), nil, &Query{PodUID: "web", Pods: true})
			if err != nil {
				t.Fatal(err)
			}
			got := "<nil>"
			if p := answer.Pods[0].Pod; p != nil {
				got = p.Kind + " " + p.Name
			}
			if got += " " + answer.Pods[0].PodMissing; got != test.want {
				t.Errorf("%s: got %q, want %q", name, got, test.want)
			}
		}
	})
}

// The whole pods of an answer come from one reading of the log.
func TestManyWholePodsThatEnded(t *testing.T) {
	onNode(t, false, func(n *node) {
		pods := []*v1.Pod{pod("a", "10.0.0.1"), pod("b", "10.0.0.1")}
		n.deliver(config.ADD, "api", pods...)
		n.deliver(config.REMOVE, "api", pods...)
		read := 0
		n.wholePods = func(_ context.Context, at map[types.UID]time.Time) map[types.UID]*journal.Pod {
			read++
			found := make(map[types.UID]*journal.Pod)
			for uid := range at {
				found[uid] = journal.NewPod("api", pod(string(uid)))
			}
			return found
		}
		answer, err := n.Find(n.t.Context(), nil, &Query{PodIP: "10.0.0.1", Pods: true})
		if err != nil || len(answer.Pods) != 2 || read != 1 || answer.Pods[0].Pod == nil || answer.Pods[1].Pod == nil {
			t.Errorf("got %+v, %v, read %d", answer, err, read)
		}
	})
}

// BenchmarkMemoryOfEnded prints the memory of 10,000 pods that ended.
func BenchmarkMemoryOfEnded(b *testing.B) {
	for b.Loop() {
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		e := newEnded(time.Hour, 10000)
		for i := range 10000 {
			p := pod(fmt.Sprintf("checkout-7d9f8b6c5d-%05d", i), fmt.Sprintf("10.0.%d.%d", i>>8, i&255))
			p.UID = types.UID(fmt.Sprintf("6ba7b810-9dad-11d1-80b4-%012d", i))
			p.Labels = map[string]string{"app.kubernetes.io/name": "checkout", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9f8b6c5d", "tier": "web"}
			withStatus(p, fmt.Sprintf("%064d", i), fmt.Sprintf("%064d", i+1<<20))
			e.add(journal.NewPod("api", p), time.Now())
		}
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
		runtime.KeepAlive(e)
	}
}

// An IP of the host can have had all pods that are kept. Those that ended last come, each once.
func TestManyEndedWithOneIP(t *testing.T) {
	onNode(t, false, func(n *node) {
		var mirrors, statics []*v1.Pod
		for i := range maxEnded / 2 {
			static := pod(fmt.Sprint("p", i), "10.0.0.1")
			statics, mirrors = append(statics, static), append(mirrors, mirrorOf(static, fmt.Sprint("m", i)))
		}
		for source, pods := range map[string][]*v1.Pod{"file": statics, "api": mirrors} {
			n.deliver(config.ADD, source, pods...)
			n.deliver(config.REMOVE, source, pods...)
		}
		answer, err := n.Find(n.t.Context(), nil, &Query{PodIP: "10.0.0.1"})
		if err != nil || len(answer.Pods) != maxEndedOfIP {
			t.Fatalf("got %d pods, %v", len(answer.Pods), err)
		}
		uids := make(map[string]bool)
		for _, p := range answer.Pods {
			uids[p.UID] = true
		}
		if len(uids) != maxEndedOfIP {
			t.Errorf("got %d pods once", len(uids))
		}
	})
}
