package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var podResource = schema.GroupResource{Resource: "pods"}

// world is an apiserver, and the journal of a daemon whose sources are "file", "http" and "api".
// The test holds the lock, except while it waits.
type world struct {
	t  *testing.T
	mu sync.Mutex

	journal *journal.Journal
	node    *v1.Node
	// pods are those of the apiserver, and shown those of the journal. quiet means that the
	// watch does not show changes.
	pods, shown map[string]*v1.Pod
	quiet       bool
	versions    int
	// fault is the error of each request of an operation.
	fault map[string]error
	// done are the requests.
	done   []string
	status func() v1alpha1.MirrorStatus
	stop   func()
}

// newWorld runs a manager in the bubble of synctest, until the test ends.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, journal: journal.New(journal.Options{Sources: []string{"api", "file", "http"}}),
		pods: map[string]*v1.Pod{}, shown: map[string]*v1.Pod{}, fault: map[string]error{},
	}
	w.mu.Lock()
	w.setNode("node-uid")
	w.run()
	return w
}

func (w *world) setNode(uid types.UID) {
	w.node = nil
	if uid != "" {
		w.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: uid}}
		w.journal.PutNode(w.node)
	}
}

// run starts a manager.
func (w *world) run() {
	m := New(Options{Journal: w.journal, Client: w, Node: func() *v1.Node {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.node
	}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.Run(ctx); !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run returned %v", err)
		}
	}()
	w.status = m.Status
	w.stop = func() {
		cancel()
		w.mu.Unlock()
		<-ended
		w.mu.Lock()
	}
}

// seen makes sources seen.
func (w *world) seen(sources ...string) {
	for _, source := range sources {
		w.journal.Append(config.PodUpdate{Op: config.ADD, Source: source, Pods: []*v1.Pod{}})
	}
}

// staticPod returns a static pod.
func staticPod(name, hash string, status v1.PodStatus) *v1.Pod {
	p := podtest.Pod(name, podtest.UID(hash), podtest.Static(hash), podtest.Status(status))
	p.Spec.NodeName = "node1"
	return p
}

var begin = metav1.NewTime(time.Unix(1e9, 0))

func phase(phase v1.PodPhase) v1.PodStatus { return v1.PodStatus{Phase: phase, StartTime: &begin} }

func (w *world) put(op config.PodOperation, source string, pod *v1.Pod) {
	w.journal.Append(config.PodUpdate{Op: op, Source: source, Pods: []*v1.Pod{pod}})
}

// show brings a pod of the apiserver to the journal, as the merge does: a change of the status
// keeps the old metadata.
func (w *world) show(name string) {
	if w.quiet {
		return
	}
	before, now := w.shown[name], w.pods[name]
	if before != nil && (now == nil || now.UID != before.UID) {
		w.put(config.REMOVE, "api", before)
		delete(w.shown, name)
		before = nil
	}
	switch {
	case now == nil:
		return
	case before == nil:
		w.put(config.ADD, "api", now)
	case now.DeletionTimestamp != nil:
		w.put(config.DELETE, "api", now)
	default:
		now = config.WithStatus(before, &now.Status)
		w.put(config.RECONCILE, "api", now)
	}
	w.shown[name] = now
}

// wait lets time pass, and returns the requests since the last call.
func (w *world) wait(d time.Duration) []string {
	w.mu.Unlock()
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	done := w.done
	w.done = nil
	return done
}

// expect waits and compares the requests.
func (w *world) expect(d time.Duration, want ...string) {
	w.t.Helper()
	if got := w.wait(d); !slices.Equal(got, want) {
		w.t.Errorf("the requests are %q, want %q", got, want)
	}
}

func (w *world) request(op, name string) error {
	w.done = append(w.done, op+" "+name)
	return w.fault[op]
}

func (w *world) version() string { w.versions++; return fmt.Sprint(w.versions) }

func (w *world) Get(_ context.Context, _, name string) (*v1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods[name] == nil {
		return nil, apierrors.NewNotFound(podResource, name)
	}
	return w.pods[name].DeepCopy(), nil
}

func (w *world) Create(_ context.Context, pod *v1.Pod) (*v1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.request("create", pod.Name); err != nil {
		return nil, err
	}
	if w.pods[pod.Name] != nil {
		return nil, apierrors.NewAlreadyExists(podResource, pod.Name)
	}
	made := pod.DeepCopy()
	made.ResourceVersion = w.version()
	made.UID = types.UID("api-" + made.ResourceVersion)
	made.Status = v1.PodStatus{Phase: v1.PodPending}
	w.pods[pod.Name] = made
	w.show(pod.Name)
	return made, nil
}

func (w *world) Delete(_ context.Context, _, name string, uid types.UID) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.request("delete", name); err != nil {
		return nil, err
	}
	switch pod := w.pods[name]; {
	case pod == nil:
		return nil, apierrors.NewNotFound(podResource, name)
	case pod.UID != uid:
		return nil, apierrors.NewConflict(podResource, name, errors.New("another UID"))
	case len(pod.Finalizers) > 0:
		if pod.DeletionTimestamp == nil {
			w.change(name, func(pod *v1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
		}
		return pod.Finalizers, nil
	}
	w.remove(name)
	return nil, nil
}

// remove deletes a pod as another client does.
func (w *world) remove(name string) {
	delete(w.pods, name)
	w.show(name)
}

func (w *world) PatchStatus(_ context.Context, _, name string, patch []byte) (*v1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.request("status", name); err != nil {
		return nil, err
	}
	before, _ := json.Marshal(w.pods[name])
	var precondition, after v1.Pod
	if err := json.Unmarshal(patch, &precondition); err != nil {
		return nil, err
	}
	if precondition.UID != w.pods[name].UID || precondition.ResourceVersion != w.pods[name].ResourceVersion {
		return nil, apierrors.NewConflict(podResource, name, errors.New("another version"))
	}
	data, err := jsonpatch.MergePatch(before, patch)
	if err := errors.Join(err, json.Unmarshal(data, &after)); err != nil {
		return nil, err
	}
	w.change(name, func(pod *v1.Pod) { pod.Status = after.Status })
	return w.pods[name], nil
}

// change changes a pod as another client does.
func (w *world) change(name string, do func(*v1.Pod)) {
	next := w.pods[name].DeepCopy()
	do(next)
	next.ResourceVersion = w.version()
	w.pods[name] = next
	w.show(name)
}

// stopped checks why creation is stopped; empty if it must not be.
func (w *world) stopped(reason string) {
	w.t.Helper()
	status := w.status()
	switch {
	case reason == "" && status.Stopped != nil:
		w.t.Errorf("stopped: %s", status.Stopped.Reason)
	case reason != "" && (status.Stopped == nil || !strings.Contains(status.Stopped.Reason, reason)):
		w.t.Errorf("stopped: %+v, want %s", status.Stopped, reason)
	}
}

// bubble runs a test with virtual time.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.stop() }()
		test(w)
	})
}
