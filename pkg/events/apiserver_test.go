package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// apiserver stores events. It is the Client, and the source of the status.
type apiserver struct {
	mu      sync.Mutex
	sources []v1alpha1.SourceStatus
	mirrors map[types.NamespacedName]*v1.Pod
	events  map[string]*v1.Event
	// order are the names of the events.
	order    []string
	requests int
	// fault fails a request in a namespace; hang waits for the end of the context.
	fault    func(namespace string) error
	hang     bool
	lines    []string
	recorder *Writer
}

func (a *apiserver) do(ctx context.Context, namespace string, do func() (*v1.Event, error)) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	if a.hang {
		a.mu.Unlock()
		<-ctx.Done()
		a.mu.Lock()
		return nil, context.Cause(ctx)
	}
	if a.fault != nil {
		if err := a.fault(namespace); err != nil {
			return nil, fmt.Errorf("wrapped: %w", err)
		}
	}
	event, err := do()
	if err != nil {
		return nil, fmt.Errorf("wrapped: %w", err)
	}
	return json.Marshal(event)
}

func (a *apiserver) Post(ctx context.Context, at string, body []byte) ([]byte, error) {
	event := &v1.Event{}
	if err := json.Unmarshal(body, event); err != nil {
		return nil, err
	}
	return a.do(ctx, event.Namespace, func() (*v1.Event, error) {
		if at != "/api/v1/namespaces/"+event.Namespace+"/events" || event.Kind != "Event" || event.APIVersion != "v1" {
			return nil, apierrors.NewBadRequest(at)
		}
		if a.events[event.Name] != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, event.Name)
		}
		a.events[event.Name] = event
		a.order = append(a.order, event.Name)
		return event, nil
	})
}

func (a *apiserver) Patch(ctx context.Context, at string, kind types.PatchType, body []byte) ([]byte, error) {
	name := path.Base(at)
	return a.do(ctx, path.Base(path.Dir(path.Dir(at))), func() (*v1.Event, error) {
		before := a.events[name]
		if before == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, name)
		}
		if kind != types.StrategicMergePatchType {
			return nil, apierrors.NewBadRequest(string(kind))
		}
		data, err := json.Marshal(before)
		if err != nil {
			return nil, err
		}
		if data, err = strategicpatch.StrategicMergePatch(data, body, v1.Event{}); err != nil {
			return nil, err
		}
		after := &v1.Event{}
		a.events[name] = after
		return after, json.Unmarshal(data, after)
	})
}

// all returns the events, as "KIND NAME UID TYPE REASON COUNT MESSAGE".
func (a *apiserver) all() (lines []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.order {
		e := a.events[name]
		lines = append(lines, fmt.Sprint(e.InvolvedObject.Kind, " ", e.InvolvedObject.Name, " ", e.InvolvedObject.UID, " ", e.Type, " ", e.Reason, " ", e.Count, " ", e.Message))
	}
	return lines
}

func (a *apiserver) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// manifests makes these the manifests of the file source.
func (a *apiserver) manifests(manifests ...v1alpha1.Manifest) {
	a.set(func() {
		a.sources = []v1alpha1.SourceStatus{{Name: "file", File: &v1alpha1.FileStatus{Manifests: manifests}}}
	})
}

func rejected(name, message string) v1alpha1.Manifest {
	return v1alpha1.Manifest{Path: "/m/" + name, State: v1alpha1.ManifestRejected, Reason: "Invalid", Message: name + ":1: " + message}
}

func accepted(name string) v1alpha1.Manifest {
	return v1alpha1.Manifest{Path: "/m/" + name, State: v1alpha1.ManifestAccepted, Namespace: "default", Name: name}
}

// run runs a test with a Writer in virtual time.
func run(t *testing.T, test func(*testing.T, *apiserver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &apiserver{events: make(map[string]*v1.Event)}
		r := New(Options{
			Node: "n", Client: a, QPS: DefaultQPS, Burst: DefaultBurst,
			Sources: func() []v1alpha1.SourceStatus {
				a.mu.Lock()
				defer a.mu.Unlock()
				return slices.Clone(a.sources)
			},
			MirrorPods: func() map[types.NamespacedName]*v1.Pod { return a.mirrors },
		})
		a.recorder = r
		logger := funcr.New(func(_, args string) { a.lines = append(a.lines, args) }, funcr.Options{})
		ctx, cancel := context.WithCancelCause(klog.NewContext(context.Background(), logger))
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		test(t, a)
		begin, cause := time.Now(), errors.New("the end")
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) || time.Since(begin) > 0 {
			t.Errorf("it ended with %v after %v", err, time.Since(begin))
		}
	})
}

func (a *apiserver) expect(t *testing.T, after time.Duration, want ...string) {
	t.Helper()
	<-time.After(after)
	synctest.Wait()
	if got := a.all(); !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
