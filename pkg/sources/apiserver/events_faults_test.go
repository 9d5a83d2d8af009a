package apiserver

import (
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/events"
)

// eventSubjects are manifests with events on the node and on their mirror pods.
type eventSubjects struct {
	*cluster
	manifests []v1alpha1.Manifest
	mirrors   map[types.NamespacedName]*v1.Pod
}

func recordEvents(t *testing.T, test func(e *eventSubjects)) {
	t.Helper()
	serveCluster(t, func(c *cluster) {
		e := &eventSubjects{cluster: c, mirrors: map[types.NamespacedName]*v1.Pod{}}
		poster := NewPoster(c.kubeconfig, "test")
		poster.connector.dial = c.dial
		defer poster.Close()
		stop := c.run(events.New(events.Options{
			Node: "n", Client: poster, QPS: events.DefaultQPS, Burst: events.DefaultBurst,
			Sources: func() []v1alpha1.SourceStatus {
				c.mu.Lock()
				defer c.mu.Unlock()
				return []v1alpha1.SourceStatus{{Name: "file", File: &v1alpha1.FileStatus{Manifests: slices.Clone(e.manifests)}}}
			},
			MirrorPods: func() map[types.NamespacedName]*v1.Pod { return e.mirrors },
		}))
		defer stop()
		test(e)
	})
}

// reject makes the manifest of a mirror pod bad, for a reason; empty for good.
func (e *eventSubjects) reject(name, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := v1alpha1.Manifest{Path: "/m/" + name, State: v1alpha1.ManifestHeld, Namespace: "default", Name: name, Message: why}
	if why == "" {
		m.State = v1alpha1.ManifestAccepted
	}
	for i := range e.manifests {
		if e.manifests[i].Name == name {
			e.manifests[i] = m
			return
		}
	}
	key := types.NamespacedName{Namespace: "default", Name: name}
	e.mirrors[key] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{v1.MirrorPodAnnotationKey: "static-" + name}}}
	e.manifests = append(e.manifests, m)
}

// has reports whether there is an event on an object whose message ends with a text.
func (e *eventSubjects) has(object, text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, data := range e.objects {
		var event v1.Event
		if json.Unmarshal(data, &event) == nil && event.InvolvedObject.Name == object && strings.HasSuffix(event.Message, text) {
			return true
		}
	}
	return false
}

// Each fault of each request, for a quarter of an hour, on the events of one object and on all of them: the requests are few, the
// events on other objects are written, and after the fault all events are.
func TestFaultsOfEvents(t *testing.T) {
	for _, method := range []string{nethttp.MethodPost, nethttp.MethodPatch} {
		for _, fault := range sortedFaults() {
			for _, faulty := range []string{"", "b"} {
				t.Run(fmt.Sprint(method, " ", fault, " ", faulty), func(t *testing.T) {
					recordEvents(t, func(e *eventSubjects) { e.duringFault(method, fault, faulty) })
				})
			}
		}
	}
}

func (e *eventSubjects) duringFault(method, fault, faulty string) {
	if method == nethttp.MethodPatch { // the second equal event is a patch
		for _, name := range []string{"a", "b", "c"} {
			e.reject(name, "wrong")
		}
		e.wait(5 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			e.reject(name, "")
		}
		e.wait(5 * time.Second)
	}
	e.set(faultsOfWriters[fault], method, faulty)
	for _, name := range []string{"a", "b", "c"} {
		e.reject(name, "wrong")
	}
	logs := e.logs()
	requests := e.wait(15 * time.Minute)
	hits := 0
	for _, r := range requests {
		if strings.HasPrefix(r, method+" ") {
			hits++
		}
	}
	if hits > 50 {
		e.t.Errorf("%d requests in 15 minutes", hits)
	}
	if n := e.logs() - logs; n > 10 {
		e.t.Errorf("%d lines were logged in 15 minutes", n)
	}
	e.reject("d", "wrong")
	e.wait(3 * time.Minute)
	if faulty != "" {
		for _, name := range []string{"a", "c", "d"} {
			if !e.has(name, "wrong") || !e.has("n", name+": wrong") {
				e.t.Errorf("the fault of %s keeps %s from its events", faulty, name)
			}
		}
	}
	e.set(nil, "", "")
	e.wait(8 * time.Minute)
	for _, name := range []string{"a", "b", "c", "d"} {
		if lie := method == nethttp.MethodPost && fault == "409 exists"; !lie && (!e.has(name, "wrong") || !e.has("n", name+": wrong")) {
			e.t.Errorf("%s has no events after the fault", name)
		}
	}
	if requests := e.wait(15 * time.Minute); len(requests) != 0 {
		e.t.Errorf("%d requests after the fault: %s", len(requests), requests[0])
	}
}
