package apiserver

import (
	"context"
	"fmt"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// recorded records calls of Objects.
type recorded struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorded) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

// take returns the calls since the last time.
func (r *recorded) take() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := strings.Join(r.calls, ", ")
	r.calls = nil
	return calls
}

func (r *recorded) objects() Objects {
	return Objects{
		Node: func(node *v1.Node) {
			if node == nil {
				r.add("no node")
				return
			}
			r.add("node %s", node.Labels["v"])
		},
		Namespaces: func(all []*metav1.ObjectMeta) {
			slices.SortFunc(all, func(a, b *metav1.ObjectMeta) int { return strings.Compare(a.Name, b.Name) })
			for _, meta := range all {
				r.add("%s %s%d", meta.Name, meta.Labels["v"], len(meta.ManagedFields))
			}
		},
	}
}

// objectsServer serves nodes and namespaces. Each change is sent to the watches.
type objectsServer struct {
	// changes makes the channels in the bubble.
	changes func() map[string]chan map[string]any
	// gone are the names of objects that are not listed.
	gone map[string]bool
}

func newObjectsServer() *objectsServer {
	return &objectsServer{changes: sync.OnceValue(func() map[string]chan map[string]any {
		return map[string]chan map[string]any{"nodes": make(chan map[string]any), "namespaces": make(chan map[string]any)}
	})}
}

func objectOf(resource, name, v string) map[string]any {
	kind := map[string]any{"apiVersion": "v1", "kind": "Node"}
	if resource == "namespaces" {
		kind = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
	}
	kind["metadata"] = map[string]any{
		"name": name, "resourceVersion": "30", "labels": map[string]string{"v": v}, "managedFields": []any{map[string]any{"manager": "m"}},
	}
	return kind
}

func (s *objectsServer) faults() map[string]nethttp.HandlerFunc {
	return map[string]nethttp.HandlerFunc{
		listObjects: func(w nethttp.ResponseWriter, r *nethttp.Request) {
			s.list(w, r, "1")
		},
		watchObjects: func(w nethttp.ResponseWriter, r *nethttp.Request) {
			if r.URL.Query().Get("sendInitialEvents") != "" {
				status(nethttp.StatusUnprocessableEntity, metav1.StatusReasonInvalid)(w, r)
				return
			}
			flush(w)
			for {
				select {
				case change := <-s.changes()[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]:
					write(w, change)
					flush(w)
				case <-r.Context().Done():
					return
				}
			}
		},
	}
}

// list answers a list of objects with the label.
func (s *objectsServer) list(w nethttp.ResponseWriter, r *nethttp.Request, v string) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	list := map[string]any{"apiVersion": "v1", "kind": "NodeList", "metadata": map[string]any{"resourceVersion": "20"}}
	items := []map[string]any{objectOf(resource, "node", v)}
	if resource == "namespaces" {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		items = []map[string]any{objectOf(resource, "a", v), objectOf(resource, "b", v)}
	}
	list["items"] = slices.DeleteFunc(items, func(item map[string]any) bool {
		return s.gone[item["metadata"].(map[string]any)["name"].(string)] //nolint:forcetypeassert // see objectOf
	})
	write(w, list)
}

func (s *objectsServer) change(kind, resource, name, v string) {
	s.changes()[resource] <- map[string]any{"type": kind, "object": objectOf(resource, name, v)}
	<-time.After(time.Second)
}

// The node and the metadata of all namespaces come before the first set, and then each
// change of them.
func TestObjectsBesideThePods(t *testing.T) {
	var got recorded
	server := newObjectsServer()
	objects := got.objects()
	runWith(t, objects, server.faults(), func(f *fake) {
		<-time.After(5 * time.Second)
		if calls := got.take(); !f.has(2) || !strings.HasPrefix(calls, "node , ") || !strings.Contains(calls, "node 1") || !strings.Contains(calls, "a 10, b 10") {
			t.Fatalf("first calls %q", calls)
		}
		for _, step := range []struct{ kind, resource, name, v, want string }{
			{"MODIFIED", "nodes", "node", "2", "node 2"},
			{"MODIFIED", "namespaces", "a", "2", "a 20, b 10"},
			{"ADDED", "namespaces", "c", "1", "a 20, b 10, c 10"},
			{"DELETED", "namespaces", "b", "1", "a 20, c 10"},
			{"DELETED", "nodes", "node", "2", "no node"},
			{"ADDED", "nodes", "node", "3", "node 3"},
		} {
			server.change(step.kind, step.resource, step.name, step.v)
			if calls := got.take(); calls != step.want {
				t.Errorf("%s of %s %s: %q, want %q", step.kind, step.resource, step.name, calls, step.want)
			}
		}
		if n := f.errors(); n != 0 {
			t.Errorf("%d errors are logged", n)
		}
	})
}

// The pods do not wait for an apiserver that refuses the other objects. Each refusal is logged once
// for each resource, and the source is not degraded.
func TestObjectsThatTheApiserverRefuses(t *testing.T) {
	var got recorded
	refuse := status(nethttp.StatusForbidden, metav1.StatusReasonForbidden)
	runWith(t, got.objects(), map[string]nethttp.HandlerFunc{listObjects: refuse, watchObjects: refuse}, func(f *fake) {
		<-time.After(10 * time.Minute)
		if calls := got.take(); !f.has(2) || calls != "node " {
			t.Errorf("calls %q", calls)
		}
		if f.source.Status().Degraded {
			t.Error("the source is degraded")
		}
		if n := f.errors(); n != 4 {
			t.Errorf("%d errors are logged, want one for the list and one for the watch of each resource:\n%s", n, strings.Join(f.logged, "\n"))
		}
		server := newObjectsServer()
		f.mend(server.faults())
		<-time.After(time.Minute)
		if calls := got.take(); !strings.Contains(calls, "node 1") || !strings.Contains(calls, "a 10") {
			t.Errorf("calls %q after the mend", calls)
		}
	})
}

// An apiserver that refuses a watch names the verb. Each message is logged once for each resource,
// although lists and watches fail in turn, and a list that succeeds is not the end of it.
func TestWatchesThatTheApiserverRefuses(t *testing.T) {
	cannot := func(verb string) nethttp.HandlerFunc {
		return func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			status := statusOf(nethttp.StatusForbidden, metav1.StatusReasonForbidden)
			status["message"] = "cannot " + verb
			w.WriteHeader(nethttp.StatusForbidden)
			write(w, status)
		}
	}
	for name, test := range map[string]struct {
		list          nethttp.HandlerFunc
		calls, errors []string
	}{
		"watch":          {newObjectsServer().faults()[listObjects], []string{"node 1", "a 10"}, []string{"cannot watch"}},
		"list and watch": {cannot("list"), nil, []string{"cannot watch", "cannot list"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got recorded
			runWith(t, got.objects(), map[string]nethttp.HandlerFunc{listObjects: test.list, watchObjects: cannot("watch")}, func(f *fake) {
				<-time.After(10 * time.Minute)
				calls := got.take()
				for _, want := range test.calls {
					if !strings.Contains(calls, want) {
						t.Errorf("calls %q, want %s", calls, want)
					}
				}
				logged := f.log()
				for _, want := range test.errors {
					if n := strings.Count(logged, want); n != 2 {
						t.Errorf("%q is logged %d times, want once for each resource:\n%s", want, n, logged)
					}
				}
				if strings.Contains(logged, "succeed again") {
					t.Errorf("the watch does not succeed, but the log says so:\n%s", logged)
				}
				f.mend(newObjectsServer().faults())
				<-time.After(time.Minute)
				if n := strings.Count(f.log(), "succeed again"); n != 2 {
					t.Errorf("the success is logged %d times, want once for each resource", n)
				}
			})
		})
	}
}

// An apiserver that does not answer is logged, and does not hold up the pods.
func TestObjectsWithoutAnAnswer(t *testing.T) {
	hang := func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() }
	for name, faults := range map[string]map[string]nethttp.HandlerFunc{
		"watch":          {listObjects: newObjectsServer().faults()[listObjects], watchObjects: hang},
		"list and watch": {listObjects: hang, watchObjects: hang},
	} {
		t.Run(name, func(t *testing.T) {
			var got recorded
			runWith(t, got.objects(), faults, func(f *fake) {
				<-time.After(10 * time.Minute)
				if !f.has(2) {
					t.Error("the pods do not come")
				}
				if n := f.errors(); n < 2 {
					t.Errorf("%d errors are logged, want one for each resource at least", n)
				}
			})
		})
	}
}

// A source that replaces another one, as after a reload, does not know the objects of the earlier
// source. Objects that the apiserver no longer has are gone nevertheless.
func TestObjectsThatAreGoneBeforeTheFirstList(t *testing.T) {
	held := make(map[string]bool)
	var nodes []bool
	objects := Objects{
		Node: func(node *v1.Node) { nodes = append(nodes, node != nil) },
		Namespaces: func(all []*metav1.ObjectMeta) {
			clear(held)
			for _, meta := range all {
				held[meta.Name] = true
			}
		},
	}
	server := newObjectsServer()
	run := func() {
		runWith(t, objects, server.faults(), func(f *fake) {
			<-time.After(5 * time.Second)
			synctest.Wait()
			if !f.has(2) {
				t.Error("the pods do not come")
			}
		})
	}
	run()
	if !held["a"] || !held["b"] {
		t.Fatalf("namespaces %v", held)
	}
	server = newObjectsServer()
	server.gone = map[string]bool{"b": true, "node": true}
	run()
	if !held["a"] || held["b"] {
		t.Errorf("namespaces %v, but b is gone", held)
	}
	if n := len(nodes); nodes[n-1] {
		t.Error("the node is not gone")
	}
}

// Passing on all objects takes longer the more there are. So a burst of changes is passed on a few times, and to its end.
func TestABurstOfChangesOfObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes, took = 1000, 5 * time.Millisecond
		calls, last := 0, 0
		f := &follower{listed: func() {}, push: func(objects []any) {
			<-time.After(took)
			calls, last = calls+1, len(objects)
		}}
		store, changed := cache.NewStore(func(object any) (string, error) { return fmt.Sprint(object), nil }), make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.pass(ctx, store, changed)
		}()
		for i := range changes {
			if err := store.Add(i); err != nil {
				t.Error(err)
			}
			select {
			case changed <- struct{}{}:
			default:
			}
			<-time.After(time.Millisecond)
		}
		<-time.After(time.Minute)
		cancel()
		<-done
		if most := 2 + changes/int((passPause+1)*took/time.Millisecond); calls > most || last != changes {
			t.Errorf("%d calls, want at most %d; %d objects at the end", calls, most, last)
		}
	})
}
