package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// merger is a PodConfig with one source.
type merger struct {
	// send sends a set, next returns the number of pods in the next update.
	send func(pods []*v1.Pod)
	next func() int
	// stop ends what does not end with the context.
	stop func()
}

type noSLI struct{}

func (noSLI) ObservedPodOnWatch(klog.Logger, *v1.Pod, time.Time) {}

// mergers are the two compared mergers. The measurement is from the source's channel to
// the channel of updates.
var mergers = []struct {
	name string
	make func(ctx context.Context) merger
}{
	{"podconfigd", func(ctx context.Context) merger {
		c := config.NewPodConfig()
		sets := c.Channel("api")
		go func() { _ = c.Run(ctx) }()
		return merger{
			send: func(pods []*v1.Pod) { sets <- config.SourceSet{Pods: pods} },
			next: func() int { return len((<-c.Updates()).Pods) },
			stop: func() {},
		}
	}},
	{"kubelet", func(ctx context.Context) merger {
		c := kubeletconfig.NewPodConfig(&record.FakeRecorder{}, noSLI{})
		// The type of its elements is not exported, but its fields are.
		channel := reflect.ValueOf(c.Channel(ctx, "api"))
		set := reflect.New(channel.Type().Elem()).Elem()
		return merger{
			send: func(pods []*v1.Pod) {
				set.FieldByName("Pods").Set(reflect.ValueOf(pods))
				channel.Send(set)
			},
			next: func() int { return len((<-c.Updates()).Pods) },
			stop: channel.Close, // otherwise its pods stay in memory during later benchmarks
		}
	}},
}

// mergedPod returns a pod with 3 containers and 10 environment variables each.
func mergedPod(i, version int) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("pod-%05d", i), UID: types.UID(fmt.Sprintf("uid-%05d", i)),
			Labels: map[string]string{"app": "app", "version": "1"}, Annotations: map[string]string{"a": "b", "c": "d"},
			CreationTimestamp: metav1.Unix(1, 0),
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: v1.PodScheduled, Status: v1.ConditionTrue},
		}},
	}
	for c := range 3 {
		container := v1.Container{Name: fmt.Sprintf("c%d", c), Image: fmt.Sprintf("registry.example.com/image:%d", version)}
		for e := range 10 {
			container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("NAME_%d", e), Value: fmt.Sprintf("value-%d", e)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
	}
	return pod
}

func mergedPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = mergedPod(i, 0)
	}
	return pods
}

func startMerger(b *testing.B, start func(context.Context) merger, first []*v1.Pod) merger {
	b.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	m := start(ctx)
	b.Cleanup(func() {
		cancel()
		m.stop()
		runtime.GC()
	})
	m.send(first)
	if n := m.next(); n != len(first) {
		b.Fatalf("%d pods in the first update", n)
	}
	return m
}

// mergeSets measures sets that change one pod each. Batches of sets are made while the
// clock is stopped.
func mergeSets(b *testing.B, m merger, batch int, makeSet func() []*v1.Pod) {
	b.Helper()
	var sets [][]*v1.Pod
	b.ReportAllocs()
	for b.Loop() {
		if len(sets) == 0 {
			b.StopTimer()
			for range batch {
				sets = append(sets, makeSet())
			}
			b.StartTimer()
		}
		m.send(sets[0])
		sets = sets[1:]
		if got := m.next(); got != 1 {
			b.Fatalf("an update of %d pods", got)
		}
	}
}

// BenchmarkMergeOneOf changes one pod of a set. The other pods are the same pointers as
// before, in a new order each time.
func BenchmarkMergeOneOf(b *testing.B) {
	const batch = 64
	for _, n := range []int{110, 500, 5000} {
		for _, kind := range mergers {
			b.Run(fmt.Sprintf("pods=%d/peer=%s", n, kind.name), func(b *testing.B) {
				pods := mergedPods(n)
				m := startMerger(b, kind.make, slices.Clone(pods))
				random := rand.New(rand.NewPCG(1, 2))
				changed := 0
				mergeSets(b, m, batch, func() []*v1.Pod {
					changed++
					pods[changed%n] = mergedPod(changed%n, changed)
					set := slices.Clone(pods)
					random.Shuffle(n, func(i, j int) { set[i], set[j] = set[j], set[i] })
					return set
				})
			})
		}
	}
}

// BenchmarkMergeRelist sends all pods as new pointers of equal content, except for one,
// whose update shows that the set was merged.
func BenchmarkMergeRelist(b *testing.B) {
	const batch = 4
	for _, n := range []int{110, 500, 5000} {
		for _, kind := range mergers {
			b.Run(fmt.Sprintf("pods=%d/peer=%s", n, kind.name), func(b *testing.B) {
				m := startMerger(b, kind.make, mergedPods(n))
				version := 0
				mergeSets(b, m, batch, func() []*v1.Pod {
					version++
					set := mergedPods(n)
					set[0] = mergedPod(0, version)
					return set
				})
			})
		}
	}
}

// noMerger is a merge without cost. What remains is the cost of the steps before it.
func noMerger(context.Context) merger {
	first := true
	return merger{
		send: func([]*v1.Pod) {},
		stop: func() {},
		next: func() int {
			if first {
				first = false
				return 500
			}
			return 1
		},
	}
}

// BenchmarkMergeBurst is a burst of watch events through an UndeltaStore, the Mux and the
// merge. Each event changes one of 500 pods. The time per event is the result. It does
// not depend on their number.
func BenchmarkMergeBurst(b *testing.B) {
	const n = 500
	kinds := append(slices.Clone(mergers), struct {
		name string
		make func(ctx context.Context) merger
	}{"none", noMerger})
	for _, events := range []int{500, 1000, 2000} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("events=%d/peer=%s", events, kind.name), func(b *testing.B) {
				pods := mergedPods(n)
				m := startMerger(b, kind.make, slices.Clone(pods))
				store := cache.NewUndeltaStore(func(objects []any) {
					pods := make([]*v1.Pod, 0, len(objects))
					for _, object := range objects {
						if pod, ok := object.(*v1.Pod); ok {
							pods = append(pods, pod)
						}
					}
					m.send(pods)
				}, cache.MetaNamespaceKeyFunc)
				objects := make([]any, n)
				for i := range pods {
					objects[i] = pods[i]
				}
				if err := store.Replace(objects, "1"); err != nil {
					b.Fatal(err)
				}
				version := 0
				burst := make([]*v1.Pod, events)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					for i := range burst {
						version++
						burst[i] = mergedPod(version%n, version)
					}
					b.StartTimer()
					done := make(chan int)
					go func() {
						for range burst {
							m.next()
						}
						close(done)
					}()
					for _, pod := range burst {
						if err := store.Update(pod); err != nil {
							b.Fatal(err)
						}
					}
					<-done
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
			})
		}
	}
}
