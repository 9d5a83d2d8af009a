package bench

import (
	"encoding/json"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// arming is the rest between the first set and the first change: the kubelet begins
// to watch at about the time at which it has the set, and would miss the change.
const arming = 100 * time.Millisecond

// reader is what comes out of a peer that serves a directory.
type reader interface {
	// first waits for the first set. It returns how many pods that has, and how long
	// it took from the start.
	first(tb testing.TB) (pods int, took time.Duration)
	// await waits for the ADD of a manifest's version and returns the moment at which
	// it was there.
	await(tb testing.TB, version string) time.Duration
	// stop ends the peer.
	stop()
}

// peers are the programs that are compared.
var peers = []struct {
	name  string
	start func(testing.TB, *directory) reader
}{
	// What a subscriber reads from the socket.
	{"podconfigd", func(tb testing.TB, dir *directory) reader {
		tb.Helper()
		return startPodconfigd(tb, dir).subscribe(tb)
	}},
	// What the kubelet's own code has in the channel between its merge and its sync
	// loop.
	{"kubelet", func(tb testing.TB, dir *directory) reader {
		tb.Helper()
		return startKubeletSource(tb, dir)
	}},
}

// kubeletSource is a process of kubelet-source, which says when it has what.
type kubeletSource struct {
	*process
	events *json.Decoder
	out    io.Closer
}

func startKubeletSource(tb testing.TB, dir *directory) *kubeletSource {
	tb.Helper()
	k := &kubeletSource{}
	k.process = start(tb, buildKubeletSource, func(cmd *exec.Cmd) {
		out, err := cmd.StdoutPipe()
		if err != nil {
			tb.Fatal(err)
		}
		k.events, k.out = json.NewDecoder(out), out
	}, dir.path, nodeName)
	return k
}

func (k *kubeletSource) next(tb testing.TB) peer.Event {
	tb.Helper()
	var event peer.Event
	if err := k.events.Decode(&event); err != nil {
		tb.Fatalf("reading from kubelet-source: %v", err)
	}
	return event
}

func (k *kubeletSource) first(tb testing.TB) (pods int, took time.Duration) {
	tb.Helper()
	defer time.AfterFunc(patience, func() { _ = k.out.Close() }).Stop()
	event := k.next(tb)
	return event.Pods, event.At - event.Started
}

func (k *kubeletSource) await(tb testing.TB, version string) time.Duration {
	tb.Helper()
	defer time.AfterFunc(patience, func() { _ = k.out.Close() }).Stop()
	for {
		if event := k.next(tb); event.Op == "ADD" && event.Version == version {
			return event.At
		}
	}
}

func (k *kubeletSource) stop() { k.process.stop() }
