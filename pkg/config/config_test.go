package config

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

var errStop = errors.New("stop")

// start runs a PodConfig and returns what ends it and waits for that.
func start(t *testing.T, c *PodConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel(errStop)
		if err := <-done; !errors.Is(err, errStop) {
			t.Errorf("Run returned %v, want the context's cause", err)
		}
	}
}

func TestRunMergesEachSourceOnItsOwnChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPodConfig()
		file := c.Channel("file")
		stop := start(t, c)
		api := c.Channel("api") // while it runs
		if again := c.Channel("api"); again != api {
			t.Error("a second call gave another channel")
		}
		file <- SourceSet{Pods: []*v1.Pod{pod("a", "1")}}
		api <- SourceSet{}
		got := map[string]string{}
		for range 2 {
			u := <-c.Updates()
			got[u.Source] = told([]PodUpdate{u})
		}
		if got["file"] != "ADD a" || got["api"] != "ADD" {
			t.Errorf("got %v", got)
		}
		stop()
		if _, open := <-c.Updates(); open {
			t.Error("the channel of updates is open after Run")
		}
	})
}

// A reader that stops reading holds the merge up, not its end.
func TestRunEndsWhileNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPodConfig()
		ch := c.Channel("file")
		stop := start(t, c)
		blocked := false
		for i := 0; !blocked; i++ {
			select {
			case ch <- SourceSet{Pods: []*v1.Pod{pod("a", string(rune('a'+i%2)))}}:
				synctest.Wait()
			default:
				blocked = true
			}
		}
		stop()
	})
}

func TestSeenAllSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewPodConfig()
		ready := NewSourcesReady(c.SeenAllSources)
		file, api := c.Channel("file"), c.Channel("api")
		stop := start(t, c)
		defer stop()
		check := func(when string, want bool) {
			t.Helper()
			if got := ready.AllReady(); got != want {
				t.Errorf("%s: AllReady is %t, want %t", when, got, want)
			}
		}
		check("at the start", false)
		file <- SourceSet{}
		ready.AddSource((<-c.Updates()).Source)
		check("after one of two", false)
		api <- SourceSet{}
		synctest.Wait()
		check("with the update not taken", false)
		ready.AddSource((<-c.Updates()).Source)
		check("after both", true)
		if got := c.SeenAllSources(sets.New("file")); got {
			t.Error("seen without api among the seen ones")
		}
	})
}

func TestChannelRefusesAnEmptyName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewPodConfig().Channel("")
}

func TestOperationNames(t *testing.T) {
	for op := ADD; op <= BOOKMARK; op++ {
		if back, err := ParseOperation(op.String()); err != nil || back != op {
			t.Errorf("%v: parsed as %v, %v", op, back, err)
		}
	}
	if _, err := ParseOperation("add"); err == nil {
		t.Error(`"add" was taken for an operation`)
	}
	if got := PodOperation(99).String(); got != "PodOperation(99)" {
		t.Errorf("got %q", got)
	}
}
