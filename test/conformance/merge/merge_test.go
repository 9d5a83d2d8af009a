package merge

import (
	"context"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
	"pgregory.net/rapid"

	"github.com/podconfigd/podconfigd/test/merge"
)

// sequences is the number of random sequences of TestMergeIsTheKubelets.
var sequences = flag.Int("sequences", 20000, "how many random sequences to compare")

// modes are the kubelet's modes, in the order of merge.Modes.
var modes = []kubeletconfig.PodConfigNotificationMode{
	kubeletconfig.PodConfigNotificationIncremental,
	kubeletconfig.PodConfigNotificationSnapshotAndUpdates,
	kubeletconfig.PodConfigNotificationSnapshot,
}

type noSLI struct{}

func (noSLI) ObservedPodOnWatch(*v1.Pod, time.Time) {}

// kubelet is the kubelet's merger in one mode.
type kubelet struct {
	config   *kubeletconfig.PodConfig
	channels map[string]chan<- any
}

var kubeletOps = map[kubelettypes.PodOperation]string{
	kubelettypes.SET: "SET", kubelettypes.ADD: "ADD", kubelettypes.DELETE: "DELETE", kubelettypes.REMOVE: "REMOVE",
	kubelettypes.UPDATE: "UPDATE", kubelettypes.RECONCILE: "RECONCILE",
}

func newKubelet(ctx context.Context, mode kubeletconfig.PodConfigNotificationMode) *kubelet {
	k := &kubelet{
		config:   kubeletconfig.NewPodConfig(mode, &record.FakeRecorder{}, noSLI{}),
		channels: make(map[string]chan<- any),
	}
	for _, source := range merge.Sources {
		k.channels[source] = k.config.Channel(ctx, source)
	}
	return k
}

// merge returns the kubelet's updates for the set. Pods are copies, because the kubelet
// writes to them.
func (k *kubelet) merge(s merge.Step) (updates []merge.Update, err error) {
	pods := make([]*v1.Pod, len(s.Pods))
	for i, p := range s.Pods {
		pods[i] = p.Object()
	}
	k.channels[s.Source] <- kubelettypes.PodUpdate{Op: kubelettypes.SET, Pods: pods, Source: s.Source}
	synctest.Wait()
	for {
		select {
		case u := <-k.config.Updates():
			one, err := merge.Normalize(kubeletOps[u.Op], u.Source, u.Pods)
			if err != nil {
				return nil, fmt.Errorf("the kubelet: %w", err)
			}
			updates = append(updates, one)
		default:
			return updates, nil
		}
	}
}

// close ends the kubelet's Mux, which listens until then.
func (k *kubelet) close() {
	for _, channel := range k.channels {
		close(channel)
	}
}

// compare runs the steps on both sides, and returns the differences.
func compare(t *testing.T, steps []merge.Step) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
		us := merge.Start(ctx)
		var them []*kubelet
		for _, mode := range modes {
			them = append(them, newKubelet(ctx, mode))
		}
		defer func() {
			cancel()
			us.Wait()
			for _, k := range them {
				k.close()
			}
		}()
		synctest.Wait()
		for i, s := range steps {
			if err = compareStep(us, them, s); err != nil {
				err = fmt.Errorf("set %d: %w", i, err)
				return
			}
		}
		err = us.Unwritten()
	})
	return err
}

func compareStep(us *merge.Podconfigd, them []*kubelet, s merge.Step) error {
	updates, err := us.Merge(s)
	if err != nil {
		return err
	}
	for i, k := range them {
		want, err := k.merge(s)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(want, updates[i]) {
			return fmt.Errorf("%s: the kubelet says %v, podconfigd %v\n(-kubelet +podconfigd):\n%s",
				merge.Modes[i], want, updates[i], gocmp.Diff(want, updates[i]))
		}
	}
	return nil
}

func TestMergeIsTheKubelets(t *testing.T) {
	shards := runtime.GOMAXPROCS(0)
	each := *sequences/shards + 1
	if testing.Short() {
		each *= 5 // rapid divides by this, and 20,000 take seconds
	}
	var compared atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d sequences", compared.Load())
		if !t.Failed() && compared.Load() < int64(*sequences) {
			t.Errorf("only %d sequences were compared, want %d", compared.Load(), *sequences)
		}
	})
	if err := flag.Set("rapid.checks", fmt.Sprint(each)); err != nil {
		t.Fatal(err)
	}
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				steps := merge.Draw(rt)
				compared.Add(1)
				if err := compare(t, steps); err != nil {
					rt.Fatalf("%v\nsteps: %v", err, steps)
				}
			})
		})
	}
}
