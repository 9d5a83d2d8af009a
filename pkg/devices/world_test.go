package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a kubelet, a runtime, and the journal of a daemon whose sources are "api" and "file".
type world struct {
	t       *testing.T
	journal *journal.Journal
	lister  *Lister

	mu sync.Mutex
	// list is what the kubelet answers with, or err. Both follow change, which is called during a request; nil for nothing.
	list   []*podresourcesv1.PodResources
	err    error
	change func()
	// started identifies the kubelet, and hold makes it wait until the end of the context.
	started time.Time
	hold    bool
	asked   []time.Time
	runtime []*pleg.Pod
	// unlisted is true before the first list of the runtime.
	unlisted bool
	logged   []string
}

// inWorld runs a test with a Lister, in a bubble of virtual time. With runtime, it has a container runtime.
// prepare is called before the Lister runs.
func inWorld(t *testing.T, runtime bool, test func(w *world), prepare ...func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, journal: journal.New(journal.Options{Sources: []string{"api", "file"}}), started: time.Now()}
		opts := Options{Path: "/kubelet.sock", Journal: w.journal}
		if runtime {
			opts.Runtime = func() ([]*pleg.Pod, bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return slices.Clone(w.runtime), !w.unlisted
			}
		}
		w.lister = New(opts)
		w.lister.ask = w.answer
		for _, do := range prepare {
			do(w)
		}
		logger := funcr.New(func(_, args string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.logged = append(w.logged, args)
		}, funcr.Options{})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := w.lister.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
		}()
		synctest.Wait()
		test(w)
		cancel()
		<-ended
	})
}

func (w *world) answer(ctx context.Context) ([]*podresourcesv1.PodResources, time.Time, error) {
	w.mu.Lock()
	w.asked = append(w.asked, time.Now())
	hold, change := w.hold, w.change
	w.change = nil
	w.mu.Unlock()
	if hold {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		<-ctx.Done()
		return nil, time.Time{}, ctx.Err()
	}
	if change != nil {
		change()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list, w.started, w.err
}

// kubelet sets what the kubelet answers with: "pod container device device …", for the resource example.com/gpu.
func (w *world) kubelet(rows ...string) {
	var list []*podresourcesv1.PodResources
	for _, row := range rows {
		f := strings.Fields(row)
		p := &podresourcesv1.PodResources{Namespace: "default", Name: f[0]}
		if len(f) > 1 {
			p.Containers = []*podresourcesv1.ContainerResources{{
				Name: f[1], Devices: []*podresourcesv1.ContainerDevices{{ResourceName: "example.com/gpu", DeviceIds: f[2:]}},
			}}
		}
		list = append(list, p)
	}
	w.do(func() { w.list, w.err = list, nil })
}

func (w *world) do(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// runs makes the runtime run a pod, and says so.
func (w *world) runs(name string, uid types.UID) {
	w.do(func() {
		w.runtime = append(w.runtime, &pleg.Pod{
			Namespace: "default", Name: name, UID: uid, Containers: []pleg.Container{{Name: "c", State: pleg.StateRunning}},
		})
	})
	w.lister.Notice()
}

func newPod(name string, uid types.UID) *v1.Pod { return podtest.Pod(name, podtest.UID(string(uid))) }

// taken returns a pod with the status of a kubelet that runs it.
func taken(pod *v1.Pod) *v1.Pod {
	pod.Status.StartTime = new(metav1.Now())
	return pod
}

func (w *world) append(op config.PodOperation, source string, pods ...*v1.Pod) {
	w.journal.Append(config.PodUpdate{Op: op, Source: source, Pods: pods})
}

// pass lets time pass, and returns how often the kubelet was asked.
func (w *world) pass(d time.Duration) int {
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.asked)
	w.asked = nil
	return n
}

// expect compares the table: "uid container device device, …".
func (w *world) expect(want string) {
	w.t.Helper()
	var all []string
	for pod, resources := range w.lister.Table().All() {
		for _, r := range resources {
			row := fmt.Sprint(pod.UID, " ", r.Container)
			for _, id := range r.Named() {
				row += " " + id
			}
			all = append(all, row)
		}
	}
	if got := strings.Join(all, ", "); got != want {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

// lines returns how many lines of the log have a text.
func (w *world) lines(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.logged {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
