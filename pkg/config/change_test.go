package config

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

// running runs a PodConfig, and returns its updates in short.
func running(t *testing.T) (*PodConfig, func() string) {
	t.Helper()
	c := NewPodConfig()
	go func() { _ = c.Run(t.Context()) }()
	return c, func() string {
		synctest.Wait()
		select {
		case u := <-c.Updates():
			line := u.Op.String() + " " + u.Source
			for _, pod := range u.Pods {
				line += " " + pod.Name
			}
			switch u.Change {
			case SourceAdded:
				line += " added"
			case SourceRemoved:
				line += " removed"
			}
			return line
		default:
			return ""
		}
	}
}

func expectUpdates(t *testing.T, next func() string, want ...string) {
	t.Helper()
	for _, line := range append(want, "") {
		if got := next(); got != line {
			t.Errorf("got %q, want %q", got, line)
		}
	}
}

func TestSourcesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, next := running(t)
		c.Channel("file") <- SourceSet{Pods: []*v1.Pod{pod("a", "a")}}
		expectUpdates(t, next, "ADD file a")
		for range 3 { // each time, the source is new
			if err := c.AddSource(t.Context(), "file:x"); err != nil {
				t.Fatal(err)
			}
			expectUpdates(t, next, "BOOKMARK file:x added")
			sets := c.Channel("file:x")
			sets <- SourceSet{Pods: []*v1.Pod{pod("c", "c"), pod("b", "b")}}
			expectUpdates(t, next, "ADD file:x b c")
			if err := c.RemoveSource(t.Context(), "file:x"); err != nil {
				t.Fatal(err)
			}
			expectUpdates(t, next, "REMOVE file:x b c removed")
			select {
			case sets <- SourceSet{}:
				t.Error("a set of a removed source was taken")
			default:
			}
		}
		if names := c.Sources(); len(names) != 1 {
			t.Errorf("sources %v", names)
		}
		if err := c.RemoveSource(t.Context(), "file:y"); err != nil { // never there
			t.Fatal(err)
		}
		expectUpdates(t, next, "REMOVE file:y removed")
	})
}

// A source is removed also while a set of it is held, and while it sends one.
func TestASourceIsRemovedWithItsHeldSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, next := running(t)
		limit, _ := ParseRemovalLimit("1")
		if err := c.SetRemovalLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		sets := c.Channel("file:x")
		sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a"), pod("b", "b")}}
		expectUpdates(t, next, "ADD file:x a b")
		sets <- SourceSet{}
		expectUpdates(t, next)
		if _, held := c.Held("file:x"); !held {
			t.Error("the set is not held")
		}
		if err := c.RemoveSource(t.Context(), "file:x"); err != nil {
			t.Fatal(err)
		}
		expectUpdates(t, next, "REMOVE file:x a b removed")
		if _, held := c.Held("file:x"); held {
			t.Error("the set is still held")
		}
	})
}

// When a source is replaced, its pods stay. A set that is held, or on its way, is not merged any more.
func TestSetsOfAReplacedSourceAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, next := running(t)
		limit, _ := ParseRemovalLimit("1")
		if err := c.SetRemovalLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		sets := c.Channel("file")
		sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a"), pod("b", "b")}}
		expectUpdates(t, next, "ADD file a b")
		sets <- SourceSet{}
		synctest.Wait()
		dropped := make(chan error, 1)
		if err := c.calls.Do(t.Context(), func(context.Context) error { // while it runs, no set is merged
			sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a"), pod("b", "b"), pod("late", "late")}}
			go func() { dropped <- c.DropSets(t.Context(), "file") }()
			synctest.Wait()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-dropped; err != nil {
			t.Fatal(err)
		}
		if _, held := c.Held("file"); held {
			t.Error("the set is still held")
		}
		if err := c.Release(t.Context(), "file", nil); !errors.Is(err, ErrNotHeld) {
			t.Errorf("releasing the set of the source before: %v", err)
		}
		expectUpdates(t, next)
		c.Channel("file") <- SourceSet{Pods: []*v1.Pod{pod("b", "b"), pod("c", "c")}}
		expectUpdates(t, next, "REMOVE file a", "ADD file c")
	})
}

// A held set that is within the new limit is merged at once. The same limit again merges none that waits until it is due.
func TestALimitThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, next := running(t)
		set := func(text string) {
			t.Helper()
			limit, err := ParseRemovalLimit(text)
			if err == nil {
				err = c.SetRemovalLimit(t.Context(), limit)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		set("1")
		sets := c.Channel("file")
		sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a"), pod("b", "b"), pod("c", "c")}}
		expectUpdates(t, next, "ADD file a b c")
		sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a")}}
		expectUpdates(t, next)
		set("50%")
		expectUpdates(t, next)
		set("2")
		expectUpdates(t, next, "REMOVE file b c")
		sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a"), pod("b", "b"), pod("c", "c")}}
		expectUpdates(t, next, "ADD file b c")
		sets <- SourceSet{}
		sets <- SourceSet{Pods: []*v1.Pod{pod("a", "a"), pod("b", "b")}}
		expectUpdates(t, next)
		set("2")
		expectUpdates(t, next)
		set("1")
		expectUpdates(t, next, "REMOVE file c")
		set("")
		sets <- SourceSet{}
		expectUpdates(t, next, "REMOVE file a b")
	})
}
