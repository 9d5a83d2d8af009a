package owners

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an apiserver, and the journal of a daemon whose sources are "api" and "file".
type world struct {
	t        *testing.T
	journal  *journal.Journal
	file     string
	most     int
	resolver *Resolver
	stop     func()

	mu sync.Mutex
	// objects are those of the apiserver, by path, and kinds its resources.
	objects map[string]*metav1.PartialObjectMetadata
	kinds   map[string][]metav1.APIResource
	// fault returns the error of a request; nil for none.
	fault func(path string) error
	// hold makes requests wait until the end of their context.
	hold     bool
	requests []string
	logged   []string
}

// inWorld runs a test with a resolver, in a bubble of virtual time.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	file := filepath.Join(t.TempDir(), "owners.json")
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, journal: journal.New(journal.Options{Sources: []string{"api", "file"}}), file: file, most: 3,
			objects: make(map[string]*metav1.PartialObjectMetadata), kinds: make(map[string][]metav1.APIResource),
		}
		w.run()
		test(w)
		w.stop()
	})
}

// run starts a resolver.
func (w *world) run() {
	r := New(Options{
		Journal: w.journal, Client: w, Retention: time.Hour, Most: w.most, File: w.file,
		Node: func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "node-uid"}} },
	})
	logger := funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logged = append(w.logged, args)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run returned %v", err)
		}
	}()
	w.resolver, w.stop = r, func() { cancel(); <-ended }
}

func (w *world) answer(ctx context.Context, path string) error {
	w.mu.Lock()
	w.requests = append(w.requests, path)
	fault, hold := w.fault, w.hold
	w.mu.Unlock()
	if hold {
		<-ctx.Done()
		return ctx.Err()
	}
	if fault != nil {
		return fault(path)
	}
	return nil
}

var errNotFound = apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "x")

func (w *world) Get(ctx context.Context, path string) (*metav1.PartialObjectMetadata, error) {
	err := w.answer(ctx, path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if object := w.objects[path]; err != nil || object != nil {
		return object, err
	}
	return nil, errNotFound
}

func (w *world) Resources(ctx context.Context, path string) (*metav1.APIResourceList, error) {
	err := w.answer(ctx, path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if list, ok := w.kinds[path]; err != nil || ok {
		return &metav1.APIResourceList{APIResources: list}, err
	}
	return nil, errNotFound
}

// controlled sets the controller of an object: "apps/v1 ReplicaSet web". The UID of an owner is its name.
func controlled(object metav1.Object, by string) {
	apiVersion, rest, _ := strings.Cut(by, " ")
	kind, name, _ := strings.Cut(rest, " ")
	object.SetOwnerReferences([]metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "another", UID: "another"},
		{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)},
	})
}

// object puts an object into the apiserver; by is its controller, or empty.
func (w *world) object(path, by string) {
	name := path[strings.LastIndex(path, "/")+1:]
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"is": name}}}
	if by != "" {
		controlled(object, by)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[path] = object
}

// set sets the fault.
func (w *world) set(fault func(path string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

func newPod(name, by string) *v1.Pod {
	p := podtest.Pod(name, podtest.UID(name))
	p.Spec.NodeName = "node1"
	if by != "" {
		controlled(p, by)
	}
	return p
}

// add adds pods of the apiserver, with the same controller.
func (w *world) add(by string, names ...string) {
	var pods []*v1.Pod
	for _, name := range names {
		pods = append(pods, newPod(name, by))
	}
	w.journal.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: pods})
}

func (w *world) remove(names ...string) {
	var pods []*v1.Pod
	for _, name := range names {
		pods = append(pods, w.journal.ByUID(types.UID(name)).Object)
	}
	w.journal.Append(config.PodUpdate{Op: config.REMOVE, Source: "api", Pods: pods})
}

// pass lets time pass, and returns the requests since the last call.
func (w *world) pass(d time.Duration) []string {
	<-time.After(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	requests := w.requests
	w.requests = nil
	return requests
}

// chain returns the owners of a pod: KIND/NAME, with "+" if there are labels.
func (w *world) chain(pod *journal.Pod) string {
	var all []string
	for _, o := range w.resolver.Of(pod) {
		text := strings.ToLower(o.Kind) + "/" + o.Name
		if o.Labels["is"] == o.Name {
			text += "+"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func (w *world) of(name string) string { return w.chain(w.journal.ByUID(types.UID(name))) }

func (w *world) expect(pod, want string) {
	w.t.Helper()
	if got := w.of(pod); got != want {
		w.t.Errorf("%s has the owners %q, want %q", pod, got, want)
	}
}

func (w *world) expectRequests(got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%d requests:\n%s\nwant:\n%s", len(got), strings.Join(got, "\n"), strings.Join(want, "\n"))
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

const apps, batch = "/apis/apps/v1/namespaces/default/", "/apis/batch/v1/namespaces/default/"

func (w *world) deployment(name string, replicaSets ...string) {
	w.object(apps+"deployments/"+name, "")
	for _, set := range replicaSets {
		w.object(apps+"replicasets/"+set, "apps/v1 Deployment "+name)
	}
}

func forbidden(string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "replicasets"}, "x", errors.New("no"))
}

func unavailable(string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "busy"}}
}
