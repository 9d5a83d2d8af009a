package owners

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// All pods of an owner share its requests, and an owner of owners is read once.
func TestSharedByPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1", "web-2")
		w.object(batch+"jobs/nightly-7", "batch/v1 CronJob nightly")
		w.object(batch+"cronjobs/nightly", "")
		w.object("/api/v1/namespaces/default/replicationcontrollers/old", "")
		w.add("apps/v1 ReplicaSet web-1", "a", "b", "c")
		w.expect("a", "replicaset/web-1") // before any request
		w.expectRequests(w.pass(time.Second), apps+"replicasets/web-1", apps+"deployments/web")
		w.add("apps/v1 ReplicaSet web-2", "d", "e") // a rollout
		w.expectRequests(w.pass(time.Second), apps+"replicasets/web-2")
		for _, pod := range []string{"a", "b", "c"} {
			w.expect(pod, "replicaset/web-1+ deployment/web+")
		}
		w.expect("e", "replicaset/web-2+ deployment/web+")

		w.add("batch/v1 Job nightly-7", "f")
		w.add("v1 ReplicationController old", "g")
		w.expectRequests(w.pass(time.Second), batch+"jobs/nightly-7", batch+"cronjobs/nightly", "/api/v1/namespaces/default/replicationcontrollers/old")
		w.expect("f", "job/nightly-7+ cronjob/nightly+")
		w.expect("g", "replicationcontroller/old+")
		if diff := cmp.Diff(&v1alpha1.OwnersStatus{Known: 6}, w.resolver.Status()); diff != "" {
			t.Error(diff)
		}
		want := v1alpha1.Owner{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", UID: "nightly", Labels: map[string]string{"is": "nightly"}}
		if diff := cmp.Diff(want, w.resolver.Of(w.journal.ByUID("f"))[1]); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod without a controller, a static pod and a mirror pod need no request.
func TestNoRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add("", "bare")
		w.add("v1 Node node1", "mirror")
		static := newPod("static", "apps/v1 ReplicaSet web-1") // static pods have no owner references in a kubelet
		w.journal.Append(config.PodUpdate{
			Op: config.ADD, Source: "file", Pods: []*v1.Pod{static, newPod("url", "")}, Files: []*config.File{{Path: "/m/a.yaml"}, nil},
		})
		w.expectRequests(w.pass(time.Minute))
		w.expect("bare", "")
		w.expect("mirror", "node/node1")
		w.expect("static", "file//m/a.yaml node/node1")
		w.expect("url", "node/node1")
		want := []v1alpha1.Owner{{Kind: "File", Name: "/m/a.yaml"}, {APIVersion: "v1", Kind: "Node", Name: "node1", UID: "node-uid"}}
		if diff := cmp.Diff(want, w.resolver.Of(w.journal.ByUID("static"))); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod that gets another controller gets other owners.
func TestChangedController(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1", "web-2")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		adopted := newPod("a", "apps/v1 ReplicaSet web-2")
		w.journal.Append(config.PodUpdate{Op: config.UPDATE, Source: "api", Pods: []*v1.Pod{adopted}})
		w.expect("a", "replicaset/web-2")
		w.expectRequests(w.pass(time.Second), apps+"replicasets/web-2")
		w.expect("a", "replicaset/web-2+ deployment/web+")
	})
}

// Other kinds are found with the resources of their version, once for all owners of the kind.
func TestCustomKinds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kinds["/apis/argoproj.io/v1alpha1"] = []metav1.APIResource{
			{Name: "rollouts/status", Kind: "Rollout", Namespaced: true}, {Name: "rollouts", Kind: "Rollout", Namespaced: true},
			{Name: "fleets", Kind: "Fleet"},
		}
		const argo = "/apis/argoproj.io/v1alpha1"
		w.object(argo+"/namespaces/default/rollouts/one", "argoproj.io/v1alpha1 Fleet all")
		w.object(argo+"/namespaces/default/rollouts/two", "argoproj.io/v1alpha1 Fleet all")
		w.object(argo+"/fleets/all", "")
		w.add("argoproj.io/v1alpha1 Rollout one", "a")
		w.add("argoproj.io/v1alpha1 Rollout two", "b")
		w.expectRequests(w.pass(time.Second), argo, argo+"/namespaces/default/rollouts/one", argo, argo+"/fleets/all", argo+"/namespaces/default/rollouts/two")
		w.expect("b", "rollout/two+ fleet/all+")

		w.add("argoproj.io/v1alpha1 Unknown x", "c", "d")
		w.add("example.org/v1 Gone y", "e")
		w.expectRequests(w.pass(time.Second), "/apis/example.org/v1", argo)
		w.expect("c", "unknown/x")
		if s := w.resolver.Status(); s.Known != 3 || s.Waiting != 2 || len(s.Notes) != 2 || s.LastError != "" {
			t.Errorf("%+v", s)
		}
	})
}

// Who may create pods can write any reference. An object with another UID is not the owner, what was read for one reference is not
// for another, and no name leaves the path.
func TestForgedReferences(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		forge := func(name string, ref metav1.OwnerReference, namespace string) {
			p := newPod(name, "")
			ref.Controller = new(true)
			p.Namespace, p.OwnerReferences = namespace, []metav1.OwnerReference{ref}
			w.journal.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: []*v1.Pod{p}})
		}
		forge("uid", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "guessed"}, "default")
		forge("namespace", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "web-1"}, "other")
		forge("name", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "../deployments/web", UID: "web"}, "default")
		forge("version", metav1.OwnerReference{APIVersion: "../v1", Kind: "ReplicaSet", Name: "web", UID: "web"}, "default")
		forge("versions", metav1.OwnerReference{APIVersion: "a/b/c", Kind: "ReplicaSet", Name: "web", UID: "web"}, "default")
		w.expectRequests(w.pass(time.Second), apps+"replicasets/web-1", "/apis/apps/v1/namespaces/other/replicasets/web-1")
		for pod, want := range map[string]string{
			"uid": "replicaset/web-1", "namespace": "replicaset/web-1", "name": "replicaset/../deployments/web", "version": "replicaset/web",
		} {
			w.expect(pod, want)
		}
		if s := w.resolver.Status(); s.Waiting != 5 || len(s.Notes) != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// Long labels and references are left out.
func TestLongTexts(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("x", maxText+1)
		w.object(apps+"replicasets/long", "apps/v1 Deployment "+long)
		w.objects[apps+"replicasets/long"].Labels[long] = ""
		w.add("apps/v1 ReplicaSet long", "a")
		w.add("apps/v1 ReplicaSet "+long, "b")
		w.expectRequests(w.pass(time.Minute), apps+"replicasets/long")
		w.expect("a", "replicaset/long")
		w.expect("b", "")
	})
}

// Texts that are not UTF-8 come from clients of the apiserver that use protobuf, and from names of files. Answers in protobuf can't
// have them.
func TestNoUTF8(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add("apps/v1 ReplicaSet web\xff", "a")
		w.add("apps/v1 Replica\xffSet web", "b")
		w.journal.Append(config.PodUpdate{
			Op: config.ADD, Source: "file", Pods: []*v1.Pod{newPod("static", "")}, Files: []*config.File{{Path: "/m/\xff.yaml"}},
		})
		w.expectRequests(w.pass(time.Minute))
		w.expect("a", "")
		w.expect("b", "")
		w.expect("static", "file//m/\uFFFD.yaml node/node1")
	})
}

// References in a circle end.
func TestCircle(t *testing.T) {
	inWorld(t, func(w *world) {
		w.object(apps+"replicasets/x", "apps/v1 ReplicaSet y")
		w.object(apps+"replicasets/y", "apps/v1 ReplicaSet x")
		w.add("apps/v1 ReplicaSet x", "a")
		if n := len(w.pass(time.Minute)); n != 2 {
			t.Errorf("%d requests", n)
		}
		if n := len(w.resolver.Of(w.journal.ByUID("a"))); n != maxSteps {
			t.Errorf("%d owners", n)
		}
	})
}

// The apiserver gets a few requests at once, and then five each second.
func TestRateLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 100 {
			set := fmt.Sprint("set-", i)
			w.object(apps+"replicasets/"+set, "")
			w.add("apps/v1 ReplicaSet "+set, "pod-"+set)
		}
		if n := len(w.pass(settle)); n != burst {
			t.Errorf("%d requests at once", n)
		}
		if n := len(w.pass(10 * time.Second)); n != 10*requestsPerSecond {
			t.Errorf("%d requests in ten seconds", n)
		}
		w.pass(10 * time.Second)
		if s := w.resolver.Status(); s.Known != 100 {
			t.Errorf("%+v", s)
		}
	})
}

// An apiserver that fails is asked less and less often. What is known stays, and new pods are asked for first.
func TestBackoff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1", "web-2")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		w.set(unavailable)
		w.add("apps/v1 ReplicaSet web-2", "b")
		if n := len(w.pass(10 * time.Second)); n < 3 || n > 4 { // after 0, 1-1.5, 3-4.5, 7-10.5 seconds
			t.Errorf("%d requests in ten seconds", n)
		}
		if n := len(w.pass(10 * time.Minute)); n < 7 || n > 13 {
			t.Errorf("%d requests in ten minutes", n)
		}
		w.expect("a", "replicaset/web-1+ deployment/web+")
		w.expect("b", "replicaset/web-2")
		if s := w.resolver.Status(); s.Waiting != 1 || s.LastError != "busy" || len(s.Notes) != 0 {
			t.Errorf("%+v", s)
		}
		w.remove("b")
		w.pass(time.Second)
		if s := w.resolver.Status(); s.LastError != "" {
			t.Errorf("nothing waits: %+v", s)
		}
		w.add("apps/v1 ReplicaSet web-2", "b")
		w.pass(10 * time.Minute)
		w.set(nil)
		w.object(apps+"replicasets/other", "")
		w.add("apps/v1 ReplicaSet other", "c") // does not wait for b
		requests := w.pass(settle)
		w.expect("c", "replicaset/other+")
		requests = append(requests, w.pass(90*time.Second)...)
		slices.Sort(requests)
		w.expectRequests(requests, apps+"replicasets/other", apps+"replicasets/web-2")
		w.expect("b", "replicaset/web-2+ deployment/web+")
		if n, m := w.lines("Could not read the owner"), w.lines("can be read again"); n != 1 || m != 1 {
			t.Errorf("%d and %d lines", n, m)
		}
		if s := w.resolver.Status(); s.LastError != "" || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// While a request hangs, nobody waits for it.
func TestHangingRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.hold = true
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.expectRequests(w.pass(time.Second), apps+"replicasets/web-1")
		began := time.Now()
		w.expect("a", "replicaset/web-1")
		w.add("apps/v1 ReplicaSet web-2", "b")
		w.expect("b", "replicaset/web-2")
		if s := w.resolver.Status(); s.Waiting != 1 || time.Since(began) != 0 {
			t.Errorf("%+v after %v", s, time.Since(began))
		}
	})
}

// What is forbidden is said once for a kind, and asked for again once in five minutes.
func TestForbidden(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1")
		w.set(forbidden)
		for i := range 50 {
			w.add(fmt.Sprint("apps/v1 ReplicaSet other-", i), fmt.Sprint("pod-", i))
		}
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(10 * time.Minute)
		if n := len(w.pass(50 * time.Minute)); n < 6 || n > 10 {
			t.Errorf("%d requests in 50 minutes", n)
		}
		w.remove("a")
		w.pass(time.Minute)
		w.add("apps/v1 ReplicaSet web-1", "a") // not said again
		w.pass(10 * time.Minute)
		s := w.resolver.Status()
		if s.Known != 0 || s.Waiting != 51 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "forbidden") || s.LastError != "" {
			t.Errorf("%+v", s)
		}
		if n := w.lines("refuses"); n != 1 {
			t.Errorf("%d lines", n)
		}
		if n := testutil.ToFloat64(w.resolver.requests.WithLabelValues(resultForbidden)); n < 10 {
			t.Errorf("%v in the metric", n)
		}
		w.set(nil) // somebody grants the right
		w.pass(20 * time.Minute)
		w.expect("a", "replicaset/web-1+ deployment/web+")
		if s := w.resolver.Status(); s.Known != 2 || s.Waiting != 50 || s.NotesOmitted != 0 || len(s.Notes) != 1 { // errNotFound has one text
			t.Errorf("%+v", s)
		}
	})
}

// What is forbidden in one namespace does not delay another one.
func TestForbiddenInANamespace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1")
		w.set(func(path string) error {
			if strings.Contains(path, "/namespaces/secret/") {
				return forbidden(path)
			}
			return nil
		})
		p := newPod("hidden", "apps/v1 ReplicaSet hidden-1")
		p.Namespace = "secret"
		w.journal.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: []*v1.Pod{p}})
		w.pass(time.Hour)
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		w.expect("a", "replicaset/web-1+ deployment/web+")
		w.expect("hidden", "replicaset/hidden-1")
	})
}

// The same holds for each kind in each namespace, however many there are.
func TestForbiddenInManyNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set(forbidden)
		var pods []*v1.Pod
		for i := range maxKinds + 1 {
			p := newPod(fmt.Sprint("pod-", i), "apps/v1 ReplicaSet web-1")
			p.Namespace = fmt.Sprint("team-", i)
			pods = append(pods, p)
		}
		w.journal.Append(config.PodUpdate{Op: config.ADD, Source: "api", Pods: pods})
		w.pass(10 * time.Minute)
		if n := len(w.pass(10 * time.Minute)); n < len(pods) || n > 3*len(pods) {
			t.Errorf("%d requests in 10 minutes", n)
		}
		if n := w.lines("refuses"); n != len(pods) {
			t.Errorf("%d lines", n)
		}
	})
}

// An owner that is gone is said once, and is asked for again once in five minutes.
func TestNotFound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add("apps/v1 ReplicaSet gone", "a", "b")
		w.pass(10 * time.Minute)
		if n := len(w.pass(50 * time.Minute)); n < 6 || n > 10 {
			t.Errorf("%d requests in 50 minutes", n)
		}
		if s := w.resolver.Status(); s.Waiting != 1 || len(s.Notes) != 1 || s.LastError != "" {
			t.Errorf("%+v", s)
		}
		if n := w.lines("does not have the owner"); n != 1 {
			t.Errorf("%d lines", n)
		}
		w.remove("a", "b")
		w.expectRequests(w.pass(time.Hour))
		if s := w.resolver.Status(); s.Waiting != 0 || len(s.Notes) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Owners are kept for lookups of pods that ended: for a time, and a number of them.
func TestEndedPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1", "web-2")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.add("apps/v1 ReplicaSet web-2", "b")
		w.pass(time.Second)
		w.pass(24 * time.Hour) // nothing changes
		ended := w.journal.ByUID("a")
		w.remove("a")
		w.pass(time.Minute)
		w.add("", "x")
		w.pass(58 * time.Minute)
		w.add("", "z")
		w.pass(time.Second)
		if got := w.chain(ended); got != "replicaset/web-1+ deployment/web+" {
			t.Errorf("after 59 minutes: %s", got)
		}
		w.pass(2 * time.Minute)
		w.add("", "y")
		if requests := w.pass(time.Second); slices.Contains(requests, apps+"replicasets/web-1") { // others may be read again
			t.Errorf("requests: %q", requests)
		}
		if got := w.chain(ended); got != "replicaset/web-1" {
			t.Errorf("after an hour: %s", got)
		}
		w.expect("b", "replicaset/web-2+ deployment/web+")

		for i := range 5 { // at most three
			set := fmt.Sprint("set-", i)
			w.object(apps+"replicasets/"+set, "")
			w.add("apps/v1 ReplicaSet "+set, set)
			w.pass(time.Second)
			ended = w.journal.ByUID(types.UID(set))
			w.remove(set)
			w.pass(time.Second)
		}
		if got, n := w.chain(ended), len(w.resolver.owners); got != "replicaset/set-4+" || n != 2+3 {
			t.Errorf("%s, %d owners", got, n)
		}
	})
}

// After a restart, what was known is known without the apiserver.
func TestRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.deployment("web", "web-1", "web-2")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		w.stop()
		w.set(func(string) error { return errors.New("connection refused") })
		w.run()
		w.expectRequests(w.pass(time.Minute))
		w.expect("a", "replicaset/web-1+ deployment/web+")
		if s := w.resolver.Status(); s.Known != 2 || s.LastError != "" {
			t.Errorf("%+v", s)
		}
		w.stop()

		if err := os.WriteFile(w.file, []byte("[{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.set(nil)
		w.run()
		w.expectRequests(w.pass(time.Minute), apps+"replicasets/web-1", apps+"deployments/web")
		if n := w.lines("Could not read the known owners"); n != 1 {
			t.Errorf("%d lines", n)
		}
		if err := os.Remove(w.file); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(w.file, 0o700); err != nil {
			t.Fatal(err)
		}
		w.add("apps/v1 ReplicaSet web-2", "b")
		w.pass(time.Second)
		w.add("apps/v1 ReplicaSet web-3", "c")
		w.pass(time.Minute)
		w.expect("b", "replicaset/web-2+ deployment/web+")
		if n := w.lines("Could not store"); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

// The file is written at once, then at most every ten seconds, and at the end.
func TestWritesOfTheFile(t *testing.T) {
	inWorld(t, func(w *world) {
		known := func() int {
			data, err := os.ReadFile(w.file)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Count(string(data), "ReplicaSet")
		}
		var written []int
		for i := range 31 {
			set := fmt.Sprint("set-", i)
			w.object(apps+"replicasets/"+set, "")
			w.add("apps/v1 ReplicaSet "+set, set)
			w.pass(1100 * time.Millisecond) // no owner comes at the time of a write
			written = append(written, known())
		}
		if written = slices.Compact(written); !slices.Equal(written, []int{1, 10, 19, 28}) {
			t.Errorf("written: %d owners", written)
		}
		w.stop()
		if n := known(); n != 31 {
			t.Errorf("%d owners at the end", n)
		}
		w.run()
		w.expectRequests(w.pass(time.Minute))
	})
}

// A file that would be too long to be read leaves out the owners of pods that ended first.
func TestLongFile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.stop()
		w.most = 2000
		w.run()
		long := map[string]string{"is": strings.Repeat("x", 1000)}
		w.pass(time.Second)
		for i := range 1500 {
			o := &owner{ref: ref{kindRef{"default", "apps/v1", "ReplicaSet"}, fmt.Sprint("set-", i), "uid"}, known: true, used: time.Now(), Labels: long}
			w.resolver.owners[o.ref] = o
		}
		w.deployment("web", "web-1")
		w.add("apps/v1 ReplicaSet web-1", "a")
		w.pass(time.Second)
		w.stop()
		w.run()
		w.expectRequests(w.pass(time.Second))
		w.expect("a", "replicaset/web-1+ deployment/web+")
		if n := len(w.resolver.owners); n < 500 {
			t.Errorf("%d owners", n)
		}
	})
}

// A Resolver that does not run knows what the pods have.
func TestWithoutRun(t *testing.T) {
	r := New(Options{Node: func() *v1.Node { return nil }})
	if got := r.Of(journal.NewPod("api", newPod("a", "apps/v1 ReplicaSet web-1"))); len(got) != 1 || got[0].Name != "web-1" {
		t.Errorf("%+v", got)
	}
	if got := r.Of(journal.NewPod("file:x", newPod("a", ""))); len(got) != 1 || got[0].UID != "" || got[0].Name != "node1" {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.opts.Journal = journal.New(journal.Options{})
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
