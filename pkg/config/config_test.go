package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

var errStop = errors.New("stop")

// start runs a PodConfig and returns a function that ends it and waits for the end.
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
			got[u.Source] = summary([]PodUpdate{u})
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

// Without a receiver, the merge waits, but Run still ends.
func TestRunEndsWithoutAReceiver(t *testing.T) {
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

// Receivers that read all of each pod during later merges always find the same content.
// The race detector checks that nobody writes to the pods, or to those of the source, in
// the meantime.
func TestPodsDoNotChangeWhileTheyAreRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := NewPodConfig()
	inputs := c.Channel("api")
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	var receivers []chan *v1.Pod
	encode := func(p *v1.Pod) string {
		data, err := p.Marshal()
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	for range 4 {
		pods := make(chan *v1.Pod, 100)
		receivers = append(receivers, pods)
		running.Go(func() {
			first := make(map[*v1.Pod]string)
			for p := range pods {
				now := encode(p)
				if was, ok := first[p]; ok && was != now {
					t.Errorf("%s changed while it was read", p.Name)
				}
				first[p] = now
			}
			for p, was := range first {
				if encode(p) != was {
					t.Errorf("%s changed after it was read", p.Name)
				}
			}
		})
	}
	running.Go(func() {
		for u := range c.Updates() {
			for _, p := range u.Pods {
				for _, receiver := range receivers {
					receiver <- p
				}
			}
		}
		for _, receiver := range receivers {
			close(receiver)
		}
	})
	changes := []func(*v1.Pod){image("2"), phase(v1.PodRunning), label("k", "v"), deleting, annotation("k", "v"), image("1")}
	current := make([]*v1.Pod, 20)
	for i := range current {
		current[i] = pod(fmt.Sprint("pod-", i), fmt.Sprint(i))
	}
	for i := range 2000 {
		set := slices.Clone(current)
		inputs <- SourceSet{Pods: set}
		// The source continues to read the pods that it sent, and so does the test.
		next := current[i%len(current)].DeepCopy()
		changes[i%len(changes)](next)
		next.Generation = int64(i)
		current[i%len(current)] = next
	}
	cancel()
	running.Wait()
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

func TestParseSource(t *testing.T) {
	for name, want := range map[string]string{"": "", AllSource: "", "file": FileSource, "http": HTTPSource, "api": ApiserverSource, "file:a-1": "file:a-1", "http:b": "http:b"} {
		t.Run(cmp.Or(name, "empty"), func(t *testing.T) {
			if got, err := ParseSource(name); got != want || err != nil {
				t.Errorf("%q is %q, %v", name, got, err)
			}
		})
	}
	if _, err := ParseSource("apiserver"); err == nil || err.Error() != `unknown source "apiserver": expected file, http, api, file:NAME or http:NAME` {
		t.Errorf("apiserver: %v", err)
	}
}
