package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

// follower is a subscriber of TestPressed. It keeps the last version of each pod, and no
// history. Each update must be the next version of its pod.
type follower struct {
	*subscriber

	name    string
	changed chan struct{}

	mu sync.Mutex // guards the fields below
	// versions are by the number of the pod, and sum is their sum.
	versions    []int
	sum         int
	updates     int
	connections int
	wrong       error
	instance    string
	since       int64
}

// newFollower returns a follower. Its first connection is whole: before the first revision,
// there is nothing to resume from.
func newFollower(t *testing.T, name, socket string, most, pods int) *follower {
	t.Helper()
	f := &follower{name: name, changed: make(chan struct{}, 1), versions: make([]int, pods)}
	f.subscriber = &subscriber{t: t, cutter: &cutter{socket: socket, random: rand.New(rand.NewPCG(*seed, 3)), most: most, rest: func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.since == 0
	}}}
	return f
}

func (f *follower) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sum
}

func (f *follower) result() (updates int, wrong error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.updates, f.wrong
}

// connected returns how often it has connected.
func (f *follower) connected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.connections
}

// follow connects again and again until the context is done.
func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.read(ctx); err != nil {
			f.mu.Lock()
			f.wrong = errors.Join(f.wrong, err)
			f.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// read reads one connection until it ends. An update counts once its last line has come.
func (f *follower) read(ctx context.Context) error {
	path := "/v1alpha1/updates"
	f.mu.Lock()
	if f.since != 0 {
		path += fmt.Sprintf("?instance=%s&since=%d", f.instance, f.since)
	}
	f.connections++
	f.mu.Unlock()
	body, err := f.get(ctx, path)
	if body == nil {
		return err
	}
	defer body.Close()
	var pieces []object
	reader := bufio.NewReader(body)
	for {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			return nil // the connection was cut, or the daemon killed
		}
		l := new(line)
		if err := json.Unmarshal(text, l); err != nil {
			return fmt.Errorf("line %q: %w", text, err)
		}
		if pieces = append(pieces, l.Pods...); l.Continues {
			continue
		}
		f.take(l, pieces)
		pieces = pieces[:0]
	}
}

// take takes an update.
func (f *follower) take(l *line, pods []object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := func(format string, args ...any) {
		f.wrong = errors.Join(f.wrong, fmt.Errorf(format, args...))
	}
	switch {
	case l.Reset:
		fault("a reset at %d: %s", f.since, l.Message)
	case l.Revision != 0 && l.Revision <= f.since && l.Op != history.Bookmark:
		fault("revision %d after %d", l.Revision, f.since)
	}
	for i := range pods {
		p := pods[i].pod()
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(p.Name, "pod-"), "-"+nodeName))
		version, err2 := strconv.Atoi(p.Version)
		if err = errors.Join(err, err2); err != nil || n >= len(f.versions) {
			fault("%s %v: %w", l.Op, p, err)
			continue
		}
		if l.Op == history.Update {
			f.updates++
			if version != f.versions[n]+1 {
				fault("version %d of %s after %d", version, p.Name, f.versions[n])
			}
		}
		f.sum += version - f.versions[n]
		f.versions[n] = version
	}
	if l.Revision != 0 {
		f.instance, f.since = l.Instance, l.Revision
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
}
