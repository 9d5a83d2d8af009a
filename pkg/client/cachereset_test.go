package client_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// versioned returns a pod as from the merge, with the time at which it was first seen.
func versioned(name, version, seen string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = name, "default", types.UID(name)
	p.Spec.Containers = []v1.Container{{Name: "c", Image: version}}
	p.Annotations = map[string]string{config.ConfigSourceAnnotationKey: "file", config.ConfigFirstSeenAnnotationKey: seen}
	return p
}

// After a reset, which sends all pods again, OnChange is called only for those that were
// added, removed or changed in the meantime.
func TestOnChangeOverAReset(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	serveState := func(seen string, pods ...string) (stop func()) {
		j := journal.New(journal.Options{Sources: []string{"file"}})
		u := config.PodUpdate{Op: config.ADD, Source: "file"}
		for _, pod := range pods {
			name, version, _ := strings.Cut(pod, "=")
			u.Pods = append(u.Pods, versioned(name, version, seen))
		}
		j.Append(u)
		return serve(t, j, socket)
	}
	stop := serveState("first", "changes=1", "goes=1", "stays=1")
	changes := make(chan string, 100)
	show := func(p *v1.Pod) string {
		if p == nil {
			return "none"
		}
		return p.Name + "=" + p.Spec.Containers[0].Image
	}
	cache := client.NewCache(client.New(socket), client.CacheOptions{OnChange: func(before, after *v1.Pod) {
		changes <- fmt.Sprintf("%s to %s", show(before), show(after))
	}})
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error)
	go func() { ended <- cache.Run(ctx) }()
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, <-changes)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("OnChange got %q, want %q", got, want)
		}
	}
	expect("none to changes=1", "none to goes=1", "none to stays=1")
	stop()
	stop = serveState("second", "changes=2", "comes=1", "stays=1")
	expect("changes=1 to changes=2", "goes=1 to none", "none to comes=1")
	testutil.Until(t, "the cache has what there is now", func() bool {
		stays, ok := cache.Get("default", "stays")
		return ok && stays.Annotations[config.ConfigFirstSeenAnnotationKey] == "second"
	})
	done := errors.New("done")
	cancel(done)
	if err := <-ended; !errors.Is(err, done) {
		t.Errorf("Run returned %v, want the context's cause", err)
	}
	stop()
	if len(changes) > 0 {
		t.Errorf("another change: %q", <-changes)
	}
}
