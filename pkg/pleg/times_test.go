package pleg

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The times of a container are those of the runtime, if they can be right. Otherwise they are those of what was observed.
func TestTimesOfTheRuntime(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1e9+seconds, 0) }
	var none time.Time
	const observed, removed = 100, 200
	for name, test := range map[string]struct {
		created, started, finished time.Time
		wantStarted, wantEnded     time.Time
	}{
		"all":                        {at(1), at(2), at(50), at(2), at(50)},
		"no start":                   {at(1), none, at(50), at(1), at(50)},
		"no end":                     {at(1), at(2), none, at(2), at(removed)},
		"nothing":                    {none, none, none, at(observed), at(removed)},
		"created at 0":               {time.Unix(0, 0), none, none, at(observed), at(removed)},
		"created before 1970":        {time.Unix(-5, 0), none, none, at(observed), at(removed)},
		"a start in the future":      {at(1), at(9e8), none, at(observed), at(removed)},
		"an end in the future":       {at(1), at(2), at(9e8), at(2), at(removed)},
		"an end before the creation": {at(50), at(51), at(2), at(51), at(removed)},
	} {
		t.Run(name, func(t *testing.T) {
			k := known{Container: Container{CreatedAt: test.created, StartedAt: test.started, FinishedAt: test.finished}, since: at(observed), changed: at(observed)}
			if got := k.started(); !got.Equal(test.wantStarted) {
				t.Errorf("started %v, want %v", got, test.wantStarted)
			}
			if got := k.endTime(at(removed)); !got.Equal(test.wantEnded) {
				t.Errorf("ended %v, want %v", got, test.wantEnded)
			}
		})
	}
}

// A container that was removed is found for a minute after that, with the time at which it had ended.
func TestEndsOfRemovedContainers(t *testing.T) {
	for _, noEvents := range []bool{false, true} {
		t.Run(fmt.Sprintf("events %t", !noEvents), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(1)
				m.noEvents = noEvents
				r := read(t, Options{Runtime: m})
				pass(5 * time.Second)
				const containers = 100
				begin := time.Now()
				for i := range containers {
					m.steps("p", fmt.Sprint("c", i), StateCreated, StateRunning)
				}
				pass(10 * time.Second)
				ended := time.Now()
				for i := range containers {
					m.step("p", fmt.Sprint("c", i), StateExited)
				}
				pass(time.Hour)
				m.mu.Lock()
				m.containers = nil // one list lacks them all
				m.mu.Unlock()
				pass(3 * time.Second)
				for i := range containers {
					found, known := r.FindContainer(fmt.Sprint("c", i))
					if !known || !found.Started.Equal(begin) || !found.Ended.Equal(ended) {
						t.Fatalf("container %d: found %t, started %v, ended %v; want %v, %v", i, known, found.Started, found.Ended, begin, ended)
					}
				}
				if found, known := r.FindRemoved("p", "c7", 0); !known || found.Container.ID != "c7" || !found.Ended.Equal(ended) {
					t.Errorf("container c7 by its name: found %t, %+v", known, found)
				}
				if _, known := r.FindRemoved("p", "c7", 1); known {
					t.Error("a container that never was is found")
				}
				if pod, known := r.FindPod("p"); !known || !pod.Ended.Equal(ended) {
					t.Errorf("pod: found %t, ended %v", known, pod.Ended)
				}
				pass(defaultRetention)
				if _, known := r.FindContainer("c0"); known {
					t.Error("found after a minute")
				}
				if _, known := r.FindPod("p"); known {
					t.Error("the pod is found after a minute")
				}
				pass(tombstoneAge + forgetPeriod)
				if gone, pods := r.records.gone, r.records.ended; len(gone)+len(pods) > 0 {
					t.Errorf("%d containers, %d pods are left", len(gone), len(pods))
				}
				r.stop()
			})
		})
	}
}

// Of the containers that one list lacks, as many are found as may be, those that ended last.
func TestLimitOfRemovedContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const containers, most = 30, 10
		m := newModel(1)
		m.noEvents = true
		r := read(t, Options{Runtime: m, MaxRemoved: most, Retention: time.Hour})
		pass(5 * time.Second)
		for i := range containers {
			m.steps("p", fmt.Sprint("c", i), StateCreated, StateRunning)
		}
		pass(10 * time.Second)
		for i := range containers {
			m.step("p", fmt.Sprint("c", i), StateExited)
			pass(time.Second)
		}
		m.mu.Lock()
		m.containers = nil
		m.mu.Unlock()
		pass(2*forgetPeriod + 3*time.Second)
		for i := range containers {
			if _, known := r.FindContainer(fmt.Sprint("c", i)); known != (i >= containers-most) {
				t.Errorf("container %d is found: %t", i, known)
			}
		}
		if _, known := r.FindPod("p"); !known {
			t.Error("the pod is not found")
		}
		r.stop()
	})
}
