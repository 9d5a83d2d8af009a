package client_test

import (
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/recovered"
)

func named(name string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.UID = name, types.UID(name)
	return p
}

// A cache is synced with pods that are only restored, but not before every source is known.
func TestCacheOfRestoredPods(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	j := journal.New(journal.Options{Sources: []string{"api", "file", "http"}, Recovered: recovered.Of(map[string][]*v1.Pod{
		"api": {named("a")}, "file": {named("b")},
	})})
	t.Cleanup(serve(t, j, socket))
	cache, _ := runCache(t, socket)
	awaitNames(t, cache.List, "a b")
	select {
	case <-cache.Synced():
		t.Error("synced before http is known")
	default:
	}
	j.Append(config.PodUpdate{Op: config.ADD, Source: "http"})
	<-cache.Synced()
	j.Append(config.PodUpdate{Op: config.REMOVE, Source: "api", Pods: []*v1.Pod{named("a")}, More: true})
	j.Append(config.PodUpdate{Op: config.ADD, Source: "api"})
	awaitNames(t, cache.List, "b")

	status, err := client.New(socket).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ seen, restored bool }{{true, false}, {false, true}, {true, false}} {
		if s := status.Sources[i]; s.Seen != want.seen || s.Restored != want.restored {
			t.Errorf("%+v", s)
		}
	}
}
