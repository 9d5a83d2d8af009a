package e2e

import (
	"context"
	"strings"
	"sync"

	"github.com/podconfigd/podconfigd/pkg/client"

	"encoding/json"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Stream is a subscriber of the daemon.
type Stream struct {
	Updates chan *v1alpha1.Update
}

// Watch returns a new subscriber.
func (d *Daemon) Watch(t *testing.T, opts client.Options) *Stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stream{Updates: make(chan *v1alpha1.Update, 1000)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for u, err := range d.Client.Updates(ctx, opts) {
			if err != nil {
				t.Errorf("the stream: %v", err)
				return
			}
			select {
			case s.Updates <- u:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// Expect waits for the next updates, "OP pod pod". It passes over bookmarks that are not wanted: they
// also come when only a version of the runtime changed the revision.
func (s *Stream) Expect(t *testing.T, want ...string) {
	t.Helper()
	for _, line := range want {
		var last *v1alpha1.Update
		for last == nil || last.Op == v1alpha1.OpBookmark && !last.Reset && !strings.HasPrefix(line, string(v1alpha1.OpBookmark)) {
			select {
			case last = <-s.Updates:
			case <-time.After(testutil.Patience):
				t.Fatalf("no update for %v, want %q", testutil.Patience, line)
			}
		}
		words := []string{string(last.Op)}
		for _, p := range last.Pods {
			words = append(words, p.Name)
		}
		if last.Reset {
			words = append(words, "reset")
		}
		if got := strings.Join(words, " "); got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	}
}

// SyncUp reads the start of the stream, until all sources are ready.
func SyncUp(t *testing.T, s *Stream) {
	t.Helper()
	for {
		select {
		case u := <-s.Updates:
			if u.Ready != nil && *u.Ready {
				return
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("not ready after %v", testutil.Patience)
		}
	}
}

// Shown waits for a RECONCILE of the pod that has what the function wants, and returns it.
func (s *Stream) Shown(t *testing.T, what string, want func(*v1.Pod) bool, see ...func(*v1alpha1.Update)) *v1alpha1.Update {
	t.Helper()
	deadline := time.After(testutil.Patience)
	var last string
	for {
		select {
		case u := <-s.Updates:
			for _, f := range see {
				f(u)
			}
			for _, p := range u.Pods {
				status, _ := json.Marshal(p.Status)
				last = string(u.Op) + " " + string(status)
				if u.Op == v1alpha1.OpReconcile && want(p) {
					return u
				}
			}
		case <-deadline:
			t.Fatalf("no RECONCILE with %s within %v; the last update is %s", what, testutil.Patience, last)
		}
	}
}
