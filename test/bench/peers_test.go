package bench

import (
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

const (
	// arming is the rest between the first set and the first change: the kubelet begins
	// to watch at about the time at which it has the set, and would miss the change.
	arming = 100 * time.Millisecond
	// backlog is how many events may wait; a change makes two.
	backlog = 1024
)

// peers are the programs that are compared.
var peers = []struct {
	name  string
	start func(testing.TB, *directory) *follower
}{
	// What a subscriber reads from the socket.
	{"podconfigd", followPodconfigd},
	// What the kubelet's own code has in the channel between its merge and its sync
	// loop.
	{"kubelet", followKubelet},
}

// follower has the events of a peer that serves a directory. They are read as they
// come: whoever changes the directory may be held up in doing so for longer than
// the peer takes.
type follower struct {
	events <-chan peer.Event
	failed <-chan error
	// stop ends the peer.
	stop func()
}

// follow reads events until there are no more.
func follow(ctx context.Context, p *process, next func() (peer.Event, error)) *follower {
	events, failed := make(chan peer.Event, backlog), make(chan error, 1)
	go func() {
		for {
			event, err := next()
			if err != nil {
				failed <- err
				return
			}
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return &follower{events: events, failed: failed, stop: p.stop}
}

func followPodconfigd(tb testing.TB, dir *directory) *follower {
	tb.Helper()
	p := startPodconfigd(tb, dir)
	return follow(tb.Context(), p.process, p.subscribe(tb).next)
}

// followKubelet runs kubelet-source, which says itself when it has what.
func followKubelet(tb testing.TB, dir *directory) *follower {
	tb.Helper()
	var out io.Reader
	p := start(tb, buildKubeletSource, func(cmd *exec.Cmd) {
		var err error
		if out, err = cmd.StdoutPipe(); err != nil {
			tb.Fatal(err)
		}
	}, dir.path, nodeName)
	lines := json.NewDecoder(out)
	return follow(tb.Context(), p, func() (event peer.Event, err error) {
		err = lines.Decode(&event)
		return event, err
	})
}

func (f *follower) next(tb testing.TB) peer.Event {
	tb.Helper()
	select {
	case event := <-f.events:
		return event
	case err := <-f.failed:
		tb.Fatal(err)
	case <-time.After(patience):
		tb.Fatalf("nothing came for %v", patience)
	}
	return peer.Event{}
}

// first waits for the first set. It returns how many pods that has, and how long it
// took from the start.
func (f *follower) first(tb testing.TB) (pods int, took time.Duration) {
	tb.Helper()
	for {
		event := f.next(tb)
		pods += event.Pods
		if event.Ready {
			return pods, event.At - event.Started
		}
	}
}

// await waits for the ADD of a manifest's version and returns the moment at which
// it was there.
func (f *follower) await(tb testing.TB, version string) time.Duration {
	tb.Helper()
	for {
		if event := f.next(tb); event.Op == "ADD" && event.Version == version {
			return event.At
		}
	}
}
