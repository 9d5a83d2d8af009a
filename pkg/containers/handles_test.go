package containers

import (
	"testing"
	"time"
)

// The processes of a container can be out of sight. They are not looked for again and again.
func TestHandlesOutOfSight(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{})
		s.expect("BOOKMARK complete")
		w.set("a/x running")
		<-time.After(time.Hour)
		s.expect("ADD - a/x running")
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.reads != handlesTries {
			t.Errorf("%d readings, want %d", w.reads, handlesTries)
		}
	})
}

// On a machine that is busy for a minute, the processes are found afterwards.
func TestHandlesOnABusyMachine(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{})
		s.expect("BOOKMARK complete")
		w.set("a/x running")
		<-time.After(time.Minute)
		w.mu.Lock()
		w.pids["a-x"] = 7
		w.mu.Unlock()
		<-time.After(2 * time.Minute)
		s.expect("ADD - a/x running; UPDATE - a/x running 7")
	})
}

// Containers that start in the meantime do not use up the tries of another one.
func TestHandlesThatComeLate(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.watch(nil, WatchOptions{})
		s.expect("BOOKMARK complete")
		w.set("a/x running")
		for _, name := range []string{"b", "c", "d", "e"} {
			w.mu.Lock()
			w.pids[name+"-x"] = 8
			w.mu.Unlock()
			w.set(name + "/x running")
		}
		s.read()
		w.mu.Lock()
		w.pids["a-x"] = 7
		w.mu.Unlock()
		<-time.After(handlesPause + time.Millisecond)
		s.expect("UPDATE - a/x running 7")
	})
}
