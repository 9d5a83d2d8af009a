package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// byFirst indexes pods by the first letter of their names.
var byFirst = map[string]func(*v1.Pod) []string{"first": func(p *v1.Pod) []string { return []string{p.Name[:1]} }}

// runCache runs a cache until the test ends, and returns the changes that it reported.
func runCache(t *testing.T, socket string) (cache *client.Cache, changes func() map[string]bool) {
	t.Helper()
	var mu sync.Mutex
	present := make(map[string]bool)
	cache = client.NewCache(client.New(socket), client.CacheOptions{
		Indexers: byFirst,
		OnChange: func(before, after *v1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			if before != nil {
				if !present[before.Name] {
					t.Errorf("%s changed or went, and never came", before.Name)
				}
				delete(present, before.Name)
			}
			if after != nil {
				present[after.Name] = true
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	run := cache.Run
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return cache, func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		all := make(map[string]bool)
		for name := range present {
			all[name] = true
		}
		return all
	}
}

func names(pods []*v1.Pod) string {
	all := make([]string, len(pods))
	for i, p := range pods {
		all[i] = p.Name
	}
	return strings.Join(all, " ")
}

func awaitNames(t *testing.T, get func() []*v1.Pod, want string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if got := names(get()); got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

func TestCache(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	j := journal.New(journal.Options{Sources: []string{"file", "http"}})
	t.Cleanup(serve(t, j, socket))
	cache, _ := runCache(t, socket)
	add(j, config.ADD, "b")
	awaitNames(t, cache.List, "b")
	add(j, config.ADD, "a1", "a2")
	awaitNames(t, cache.List, "a1 a2 b") // everything after b was read
	select {
	case <-cache.Synced():
		t.Error("synced before all sources were seen")
	default:
	}
	j.Append(config.PodUpdate{Op: config.ADD, Source: "http"})
	<-cache.Synced()
	awaitNames(t, cache.List, "a1 a2 b")
	if got := names(cache.ByIndex("first", "a")); got != "a1 a2" {
		t.Errorf("by index: %q", got)
	}
	if p, ok := cache.Get("", "b"); !ok || p.Name != "b" {
		t.Errorf("Get: %v, %t", p, ok)
	}
	add(j, config.REMOVE, "a1")
	awaitNames(t, func() []*v1.Pod { return cache.ByIndex("first", "a") }, "a2")
	if _, ok := cache.Get("", "a1"); ok {
		t.Error("a pod that is gone is still found")
	}
	if got := cache.ByIndex("other", "a"); len(got) != 0 {
		t.Errorf("by an index that is not there: %v", got)
	}
}

// A static pod comes before its mirror pod.
func TestCachePrefersTheStaticPod(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	j := journal.New(journal.Options{Sources: []string{"api", "file"}})
	t.Cleanup(serve(t, j, socket))
	for source, mirror := range map[string]bool{"api": true, "file": false} {
		p := &v1.Pod{}
		p.Name, p.Namespace, p.UID, p.Labels = "a", "ns", "u", map[string]string{"source": source}
		if mirror {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
		}
		j.Append(config.PodUpdate{Op: config.ADD, Source: source, Pods: []*v1.Pod{p}})
	}
	cache, _ := runCache(t, socket)
	<-cache.Synced()
	if p, ok := cache.Get("ns", "a"); !ok || p.Labels["source"] != "file" {
		t.Errorf("got %v", p)
	}
	if len(cache.List()) != 2 {
		t.Errorf("got %v", cache.List())
	}
}

// Of several pods with a name, the one of the first source counts, as in the interfaces of the daemon, and a
// mirror pod only if there is no other.
func TestCachePrefersTheFirstSource(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	sources := []string{"api", "api2", "file", "http"}
	j := journal.New(journal.Options{Sources: sources})
	t.Cleanup(serve(t, j, socket))
	for n, source := range slices.Backward(sources) { // the last one has the first UID
		p := &v1.Pod{}
		p.Name, p.Namespace, p.UID, p.Labels = "a", "ns", types.UID(fmt.Sprint(len(sources)-n)), map[string]string{"source": source}
		if source == "api" {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "hash"}
		}
		j.Append(config.PodUpdate{Op: config.ADD, Source: source, Pods: []*v1.Pod{p}})
	}
	cache, _ := runCache(t, socket)
	<-cache.Synced()
	for range 20 {
		if p, ok := cache.Get("ns", "a"); !ok || p.Labels["source"] != "api2" {
			t.Fatalf("got that of %s", p.Labels["source"])
		}
		var order []string
		for _, p := range cache.List() {
			order = append(order, p.Labels["source"])
		}
		if got := strings.Join(order, " "); got != "api2 file http api" {
			t.Fatalf("in the order %s", got)
		}
	}
}

// For any behavior of daemon and connection, the cache ends with the current pods, and
// has reported each change once.
func TestCacheConverges(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	random := rand.New(rand.NewPCG(1, 2))
	fresh := func() *journal.Journal {
		return journal.New(journal.Options{Sources: []string{"file"}, MaxUpdates: 4})
	}
	j := fresh()
	stop := serve(t, j, socket)
	cache, changes := runCache(t, socket)
	present := make(map[string]bool)
	add(j, config.ADD)
	for round := range 300 {
		name := fmt.Sprintf("p%02d", random.IntN(20))
		op := config.ADD
		switch {
		case present[name] && random.IntN(2) == 0:
			op = config.UPDATE
		case present[name]:
			op = config.REMOVE
		}
		add(j, op, name)
		if op == config.REMOVE {
			delete(present, name)
		} else {
			present[name] = true
		}
		switch random.IntN(40) {
		case 0: // another connection, perhaps behind the ring
			stop()
			stop = serve(t, j, socket)
		case 1: // another instance, which sends all pods again
			stop()
			j = fresh()
			var all []string
			for name := range present {
				all = append(all, name)
			}
			add(j, config.ADD, all...)
			stop = serve(t, j, socket)
		}
		if round%50 == 49 {
			pods := j.State().Pods
			want := make([]*v1.Pod, len(pods))
			for i, p := range pods {
				want[i] = p.Object
			}
			awaitNames(t, cache.List, names(want))
			testutil.Eventually(t, func() error { // OnChange follows the list
				if got := changes(); len(got) != len(want) {
					return fmt.Errorf("the changes give %v, the daemon has %s", got, names(want))
				}
				return nil
			})
		}
	}
	stop()
}
