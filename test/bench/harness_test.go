package bench

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/bench/internal/peer"
)

// TestPeers holds that each peer tells the first set and then a change, and that
// the change is told after it was made, by the clock of all.
func TestPeers(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			dir := newDirectoryOf(t, 3)
			r := p.start(t, dir)
			defer r.stop()
			pods, took := r.first(t)
			if pods != 3 || took <= 0 {
				t.Errorf("the first set has %d pods after %v, want 3 after some time", pods, took)
			}
			pause(t, arming)
			renamed := dir.put(t, manifest{name: "pod-0001", version: "1"})
			if at := r.await(t, "1"); at <= renamed {
				t.Errorf("the change was told %v before it was made", renamed-at)
			}
		})
	}
}

// TestLine holds what is read off the bytes of a line to what decoding it gives.
func TestLine(t *testing.T) {
	dir := newDirectoryOf(t, 3)
	s := startPodconfigd(t, dir).subscribe(t)
	defer s.stop()
	defer time.AfterFunc(patience, s.cancel).Stop()
	for changed := false; ; {
		line, _, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		var update v1alpha1.Update
		if err := json.Unmarshal(line, &update); err != nil {
			t.Fatal(err)
		}
		ready := update.Ready != nil && *update.Ready
		hasVersion := slices.ContainsFunc(update.Pods, func(pod *v1.Pod) bool {
			return pod.Annotations[peer.VersionAnnotation] == "1"
		})
		if !line.is(update.Op) || line.pods() != len(update.Pods) ||
			line.ready() != ready || line.hasVersion("1") != hasVersion {
			t.Errorf("%d pods, ready %t, version 1 %t, read off %s",
				line.pods(), line.ready(), line.hasVersion("1"), line)
		}
		switch {
		case ready && !changed:
			changed = true
			dir.put(t, manifest{name: "pod-0001", version: "1"})
		case hasVersion:
			return
		}
	}
}

// TestFanOut holds that every change reaches every subscriber and is encoded once.
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

// TestProcess holds that the figures of a process can be had.
func TestProcess(t *testing.T) {
	p := startPodconfigd(t, newDirectoryOf(t, 1))
	p.subscribe(t).first(t)
	if cpu := p.cpu(t); cpu <= 0 {
		t.Errorf("the process had %v of processor time", cpu)
	}
	rss, peak := p.memory(t, "VmRSS"), p.memory(t, "VmHWM")
	if rss <= 0 || peak < rss {
		t.Errorf("VmRSS is %v, VmHWM %v", rss, peak)
	}
}
