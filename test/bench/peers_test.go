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
	// arming is the wait between the first set and the first change. The kubelet starts
	// to watch at about the time of the set, and would miss an earlier change.
	arming = 100 * time.Millisecond
	// backlog is the maximum number of waiting events. A change makes two.
	backlog = 1024
)

// peers are the compared programs.
var peers = []struct {
	name  string
	start func(testing.TB, *directory) *follower
}{
	// A subscriber that reads from the socket.
	{"podconfigd", followPodconfigd},
	// The channel between the kubelet's merge and its sync loop.
	{"kubelet", followKubelet},
}

// follower has the events of a peer that serves a directory. They are read at once,
// because changes of the directory may take longer than the peer.
type follower struct {
	events <-chan peer.Event
	failed <-chan error
	// stop ends the peer.
	stop func()
}

// follow reads events until the end.
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

// followKubelet runs kubelet-source, which records the times itself.
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

// first waits for the first set. It returns its number of pods, and the time since the
// start.
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

// await waits for the ADD of a manifest's version and returns its time.
func (f *follower) await(tb testing.TB, version string) time.Duration {
	tb.Helper()
	for {
		if event := f.next(tb); event.Op == "ADD" && event.Version == version {
			return event.At
		}
	}
}
