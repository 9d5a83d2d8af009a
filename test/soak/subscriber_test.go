package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

// retry is the time between two attempts to connect.
const retry = 5 * time.Millisecond

// subscriber is a client as the documentation tells one to be: it saves the instance and
// the revision of each message that has a revision, forgets both at a reset, and saves nothing else.
type subscriber struct {
	t      *testing.T
	cutter *cutter
	random *rand.Rand
	steps  *progress
	// pauses: it stops reading now and then.
	pauses bool

	mu      sync.Mutex
	history *history.History
	held    map[string]history.Pod
	changed chan struct{}

	instance string
	since    int64
	// begun: a SET continues.
	begun bool
}

// connect begins a connection. Without a saved revision the subscriber begins with no pods.
func (s *subscriber) connect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.Connections = append(s.history.Connections, &history.Connection{Instance: s.instance, Since: s.since})
	s.begun = false
	if s.since == 0 {
		s.held = make(map[string]history.Pod)
	}
}

// take acts on a message, records it, and saves its revision.
func (s *subscriber) take(ctx context.Context, m *history.Message) {
	s.mu.Lock()
	connection := s.history.Connections[len(s.history.Connections)-1]
	connection.Messages = append(connection.Messages, m)
	if m.Reset || m.Op == history.List || m.Op == history.Set && !s.begun {
		s.held = make(map[string]history.Pod)
	}
	s.begun = m.Op == history.Set && m.Continues
	for _, p := range m.Pods {
		if key := s.key(p); m.Op == history.Remove {
			delete(s.held, key)
		} else {
			s.held[key] = p
		}
	}
	if m.Reset {
		s.instance, s.since = "", 0
	}
	if m.Revision != 0 {
		s.instance, s.since = m.Instance, m.Revision
	}
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.pauses && s.random.IntN(40) == 0 {
		s.steps.pause(ctx, 1+s.random.IntN(60))
	}
}

// forget has the subscriber begin again.
func (s *subscriber) forget() { s.instance, s.since = "", 0 }

// key is the key by which the subscriber distinguishes pods.
func (s *subscriber) key(p history.Pod) string {
	switch s.history.View {
	case history.Names:
		return p.Namespace + "/" + p.Name
	case history.UIDs:
		return p.UID
	}
	return p.Source + "/" + p.UID
}

// await waits until a condition holds for what the subscriber holds.
func (s *subscriber) await(ctx context.Context, holds func(map[string]history.Pod) error) error {
	for {
		s.mu.Lock()
		err, changed := holds(s.held), s.changed
		s.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: not in time: %w", s.history.Subscriber, err)
		}
	}
}

// follow connects again and again until the context is done.
func (s *subscriber) follow(ctx context.Context, read func(context.Context) error) {
	for ctx.Err() == nil {
		if err := read(ctx); err != nil && ctx.Err() == nil {
			s.t.Errorf("%s: %v", s.history.Subscriber, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}
