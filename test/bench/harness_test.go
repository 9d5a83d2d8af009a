package bench

import (
	"bufio"
	"encoding/json"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// TestPeers checks that each peer reports the first set and then a change, with a time
// after the change.
func TestPeers(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			dir := newDirectoryOf(t, 3)
			f := p.start(t, dir)
			defer f.stop()
			pods, took := f.first(t)
			if pods != 3 || took <= 0 {
				t.Errorf("the first set has %d pods after %v, want 3 after some time", pods, took)
			}
			pause(t, arming)
			renamed := dir.put(t, manifest{name: "pod-0001", version: "1"})
			if at := f.await(t, "1"); at <= renamed {
				t.Errorf("the change came %v before it was made", renamed-at)
			}
		})
	}
}

// TestGlance compares the fast parser of the daemon's lines with decoding.
func TestGlance(t *testing.T) {
	dir := newDirectoryOf(t, 3)
	p := startPodconfigd(t, dir)
	body := p.get(t.Context(), t, "/v1alpha1/updates")
	defer body.Close()
	changed := false
	for lines := bufio.NewScanner(body); lines.Scan(); {
		var update v1alpha1.Update
		if err := json.Unmarshal(lines.Bytes(), &update); err != nil {
			t.Fatal(err)
		}
		want := peer.Event{Op: string(update.Op), Pods: len(update.Pods), Ready: update.Ready != nil && *update.Ready}
		if len(update.Pods) > 0 {
			want.Version = update.Pods[0].Annotations[peer.VersionAnnotation]
		}
		if got := peer.Glance(lines.Bytes()); got != want {
			t.Errorf("%+v was read off, want %+v: %s", got, want, lines.Text())
		}
		switch {
		case want.Ready && !changed:
			changed = true
			dir.put(t, manifest{name: "pod-0001", version: "1"})
		case want.Op == string(v1alpha1.OpAdd) && want.Version == "1":
			return
		}
	}
	t.Fatal("the stream ended")
}

// TestFanOut checks that every subscriber gets every change and each is encoded once.
func TestFanOut(t *testing.T) {
	f := newFanOut(t, 3)
	before := f.encodes(t)
	const changes = 2 * window
	for range changes {
		f.change(t)
	}
	f.settle(t, 0)
	if got, want := f.delivered.Load(), int64(3*changes); got != want {
		t.Errorf("%d deliveries, want %d", got, want)
	}
	if got := f.encodes(t) - before; got != changes {
		t.Errorf("%v pods were encoded for %d changes", got, changes)
	}
}

// TestProcess checks that the measurements of a process work.
func TestProcess(t *testing.T) {
	p := startPodconfigd(t, newDirectoryOf(t, 1))
	if err := p.subscribe(t).untilReady(); err != nil {
		t.Fatal(err)
	}
	if cpu := p.cpu(t); cpu <= 0 {
		t.Errorf("the process had %v of processor time", cpu)
	}
	rss, peak := p.memory(t, "VmRSS"), p.memory(t, "VmHWM")
	if rss <= 0 || peak < rss {
		t.Errorf("VmRSS is %v, VmHWM %v", rss, peak)
	}
}
