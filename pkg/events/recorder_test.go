package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each change of a manifest has one event, however long it lasts.
func TestOneEventForEachChange(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		a.manifests(rejected("a", "wrong"), accepted("b"))
		first := "Node n n Warning ManifestRejected 1 source file: a manifest is rejected: /m/a:1: wrong"
		a.expect(t, 2*time.Second, first)
		a.expect(t, time.Hour, first)
		a.mu.Lock()
		e := a.events[a.order[0]]
		a.mu.Unlock()
		if e.Namespace != "default" || e.Source != (v1.EventSource{Component: "podconfigd", Host: "n"}) || e.ReportingController != "podconfigd" ||
			e.ReportingInstance != "n" || e.InvolvedObject.APIVersion != "v1" || e.FirstTimestamp.IsZero() || e.LastTimestamp.IsZero() {
			t.Errorf("the event is %+v", e)
		}
		a.manifests(accepted("a"), accepted("b"))
		good := "Node n n Normal ManifestAccepted 1 source file: manifest /m/a is accepted"
		a.expect(t, 2*time.Second, first, good)
		// The same again is counted, in the same object.
		a.manifests(rejected("a", "wrong"))
		twice := strings.Replace(first, " 1 ", " 2 ", 1)
		a.expect(t, 2*time.Second, twice, good)
		a.manifests(rejected("a", "other"))
		other := "Node n n Warning ManifestRejected 1 source file: a manifest is rejected: /m/a:1: other"
		a.expect(t, 2*time.Second, twice, good, other)
		// A manifest that is gone has no event, nor has a source that is gone.
		a.manifests()
		a.expect(t, time.Minute, twice, good, other)
		// An event that has expired is made again, with its count.
		a.set(func() { clear(a.events); a.order = nil })
		a.manifests(rejected("a", "wrong"))
		a.expect(t, 2*time.Second, strings.Replace(first, " 1 ", " 3 ", 1))
	})
}

func TestEventsOfSources(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		now := time.Now()
		a.set(func() {
			a.sources = []v1alpha1.SourceStatus{
				{Name: "file", Degraded: true, DegradedSince: &now, LastError: "gone", Held: &v1alpha1.HeldSet{Removes: 5, Pods: 6}},
				{Name: "api", Degraded: true, DegradedSince: &now, LastError: "refused", API: &v1alpha1.APIStatus{}},
			}
		})
		lines := []string{
			"Node n n Warning RemovalHeld 1 source file: a set that would remove 5 of 6 pods is held; to apply it, run \"podconfigctl release file --removes=5\"",
			"Node n n Warning SourceDegraded 1 source file: it can't be read, keeping its last pods: gone",
		}
		slices.Reverse(lines)
		a.expect(t, 20*time.Second, lines...)
		lines = append(lines, "Node n n Warning SourceDegraded 1 source api: it can't be read, keeping its last pods: refused")
		a.expect(t, 20*time.Second, lines...)
		a.set(func() { a.sources = []v1alpha1.SourceStatus{{Name: "file"}} })
		a.expect(t, 2*time.Second, append(lines, "Node n n Normal SourceRecovered 1 source file: it can be read again",
			"Node n n Normal RemovalHoldEnded 1 source file: no set is held any more")...)
	})
}

// An event for a manifest is also on the mirror pod, under the UID of its static pod, as soon as
// there is one.
func TestEventsOnMirrorPods(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		held := v1alpha1.Manifest{Path: "/m/a", State: v1alpha1.ManifestHeld, Namespace: "kube-system", Name: "a-n", Message: "a:1: wrong; its last good pod is kept"}
		a.manifests(held)
		node := "Node n n Warning ManifestHeld 1 source file: a manifest can't be used: /m/a:1: wrong; its last good pod is kept"
		a.expect(t, 2*time.Second, node)
		mirror := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "a-n", UID: "its own", Annotations: map[string]string{v1.MirrorPodAnnotationKey: "static"},
		}}
		a.set(func() { a.mirrors = map[types.NamespacedName]*v1.Pod{{Namespace: "kube-system", Name: "a-n"}: mirror} })
		pod := strings.Replace(node, "Node n n", "Pod a-n static", 1)
		a.expect(t, 2*time.Second, node, pod)
		a.mu.Lock()
		if e := a.events[a.order[1]]; e.Namespace != "kube-system" {
			t.Errorf("the event of the pod is in namespace %s", e.Namespace)
		}
		a.mu.Unlock()
		a.manifests(accepted("a"))
		a.expect(t, 2*time.Second, node, pod, "Node n n Normal ManifestAccepted 1 source file: manifest /m/a is accepted",
			"Pod a-n static Normal ManifestAccepted 1 source file: manifest /m/a is accepted")
	})
}

// While the apiserver does not answer, nothing is lost that still exists afterwards, and one line
// is logged.
func TestEventsAfterAnOutage(t *testing.T) {
	for name, begin := range map[string]func(a *apiserver){
		"refused": func(a *apiserver) { a.fault = func(string) error { return errors.New("connection refused") } },
		"hanging": func(a *apiserver) { a.hang = true },
		"forbidden": func(a *apiserver) {
			a.fault = func(string) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no rights"))
			}
		},
		"too many requests": func(a *apiserver) {
			a.fault = func(string) error { return apierrors.NewTooManyRequests("later", 3) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
				a.set(func() { begin(a) })
				a.manifests(rejected("a", "wrong"), rejected("b", "wrong"), rejected("c", "wrong"))
				a.expect(t, 10*time.Minute)
				a.manifests(rejected("a", "other"), rejected("b", "wrong"), accepted("c"), rejected("d", "wrong"))
				a.expect(t, time.Hour)
				if a.requests < 10 || a.requests > 100 {
					t.Errorf("%d requests in 70 minutes", a.requests)
				}
				a.set(func() { a.fault, a.hang = nil, false })
				<-time.After(8 * time.Minute)
				synctest.Wait()
				want := []string{
					"Node n n Warning ManifestRejected 1 source file: a manifest is rejected: /m/a:1: other",
					"Node n n Warning ManifestRejected 1 source file: a manifest is rejected: /m/b:1: wrong",
					"Node n n Warning ManifestRejected 1 source file: a manifest is rejected: /m/d:1: wrong",
				}
				if got := slices.Sorted(slices.Values(a.all())); !slices.Equal(got, want) {
					t.Errorf("events:\n%s", strings.Join(got, "\n"))
				}
				if len(a.lines) != 2 || !strings.Contains(a.lines[0], "Could not write an event") || !strings.Contains(a.lines[1], "again") {
					t.Errorf("logged %q", a.lines)
				}
			})
		})
	}
}

// Where the apiserver rejects the events of one namespace, the others are written.
func TestEventsOfANamespaceAreForbidden(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		a.set(func() {
			a.fault = func(namespace string) error {
				if namespace == "kube-system" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no rights"))
				}
				return nil
			}
			a.mirrors = map[types.NamespacedName]*v1.Pod{{Namespace: "kube-system", Name: "a"}: {ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a"}}}
		})
		var want []string
		for i := range 20 {
			a.manifests(v1alpha1.Manifest{Path: "/m/a", State: v1alpha1.ManifestHeld, Namespace: "kube-system", Name: "a", Message: fmt.Sprint("a:1: ", i)})
			if i < 9 {
				want = append(want, fmt.Sprint("Node n n Warning ManifestHeld 1 source file: a manifest can't be used: /m/a:1: ", i))
			}
			a.expectPrefix(t, 10*time.Minute, want)
		}
		if len(a.lines) != 1 {
			t.Errorf("logged %q", a.lines)
		}
	})
}

func (a *apiserver) expectPrefix(t *testing.T, after time.Duration, want []string) {
	t.Helper()
	<-time.After(after)
	synctest.Wait()
	if got := a.all(); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("events %q, want %q first", got, want)
	}
}

// An event that the apiserver rejects as invalid is not tried again.
func TestInvalidEventsAreNotTriedAgain(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		a.set(func() { a.fault = func(string) error { return apierrors.NewBadRequest("no") } })
		a.manifests(rejected("a", "wrong"))
		a.expect(t, time.Hour)
		if a.requests != 1 || len(a.lines) != 1 {
			t.Errorf("%d requests, logged %q", a.requests, a.lines)
		}
		a.set(func() { a.fault = nil })
		a.manifests(rejected("a", "other"))
		a.expect(t, time.Minute, "Node n n Warning ManifestRejected 1 source file: a manifest is rejected: /m/a:1: other")
	})
}

// A manifest that changes all the time has a bounded number of requests and of events, and the
// last state is written.
func TestAManifestThatChangesAllTheTime(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		for i := range 3600 {
			a.manifests(rejected("a", fmt.Sprint("fault ", i)), accepted("b"))
			if i%2 == 0 {
				a.manifests(accepted("a"), rejected("b", "always the same"))
			}
			<-time.After(time.Second)
		}
		synctest.Wait()
		if n := len(a.all()); a.requests > 80 || a.requests < 20 || n > 30 {
			t.Errorf("%d requests and %d events in an hour: %q", a.requests, n, a.all())
		}
		a.manifests(rejected("a", "the last"), accepted("b"))
		<-time.After(6 * time.Minute)
		synctest.Wait()
		if all := a.all(); !slices.ContainsFunc(all, func(line string) bool { return strings.HasSuffix(line, "the last") }) {
			t.Errorf("the last state is missing: %q", all)
		}
	})
}

// Manifests with other names each time have a bounded number of requests, and do not delay events
// of sources. What is known of them is forgotten.
func TestAFloodOfManifests(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		for i := range 15 {
			var all []v1alpha1.Manifest
			for j := range 200 {
				all = append(all, rejected(fmt.Sprint(i, "-", j), "wrong"))
			}
			a.set(func() {
				omitted := map[v1alpha1.ManifestState]int{v1alpha1.ManifestRejected: 7, v1alpha1.ManifestAccepted: 9}
				a.sources = []v1alpha1.SourceStatus{{Name: "file", File: &v1alpha1.FileStatus{Manifests: all, ManifestsOmitted: omitted}}}
			})
			<-time.After(20 * time.Second)
		}
		synctest.Wait()
		if a.requests < 210 || a.requests > 235 {
			t.Errorf("%d requests in 5 minutes", a.requests)
		}
		if all := a.all(); !slices.Contains(all, "Node n n Warning ManifestRejected 1 source file: 7 further manifests have the state Rejected") {
			t.Error("no event for the manifests that the status does not show")
		}
		a.set(func() { a.sources[0].Degraded, a.sources[0].LastError = true, "gone" })
		<-time.After(2 * time.Second)
		synctest.Wait()
		if all := a.all(); !slices.Contains(all[len(all)-3:], "Node n n Warning SourceDegraded 1 source file: it can't be read, keeping its last pods: gone") {
			t.Errorf("the last events are %q", all[len(all)-3:])
		}
	})
}

// All of the manifests that stay have their event in the end.
func TestManyManifests(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		var all []v1alpha1.Manifest
		for i := range 220 {
			all = append(all, rejected(fmt.Sprint(i), "wrong"))
		}
		a.manifests(all...)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if n := len(a.all()); n != 200 {
			t.Errorf("%d events at once", n)
		}
		<-time.After(4 * time.Minute)
		synctest.Wait()
		if n := len(a.all()); n != 220 || a.requests != 220 {
			t.Errorf("%d events, %d requests", n, a.requests)
		}
	})
}

// The limit of requests can be changed, and 0 is none, as in the kubelet.
func TestLimitOfRequests(t *testing.T) {
	run(t, func(t *testing.T, a *apiserver) { //nolint:thelper // it is the test
		var all []v1alpha1.Manifest
		for i := range 100 {
			all = append(all, rejected(fmt.Sprint(i), "wrong"))
		}
		count := func(after time.Duration, least, most int) {
			<-time.After(after)
			synctest.Wait()
			if n := len(a.all()); n < least || n > most {
				t.Errorf("%d events, want %d to %d", n, least, most)
			}
		}
		a.recorder.SetLimits(1, 1)
		<-time.After(2 * time.Second)
		a.manifests(all...)
		count(10500*time.Millisecond, 9, 11)
		a.recorder.SetLimits(5, 10)
		count(4*time.Second, 22, 42)
		a.recorder.SetLimits(0, 0)
		count(2*time.Second, 100, 100)
	})
}

func TestLongMessages(t *testing.T) {
	long := shorten(strings.Repeat("é", 2000))
	if len(long) > maxMessage || len(long) < maxMessage-4 || !strings.HasSuffix(long, "é…") {
		t.Errorf("%d bytes, the end is %q", len(long), long[len(long)-8:])
	}
	if text := shorten("a"); text != "a" {
		t.Error(text)
	}
}
