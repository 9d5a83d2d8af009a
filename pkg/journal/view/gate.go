// Package view selects what a subscriber gets from the journal. Each kind of subscription
// is a view:
//
//   - [Stream] in [IncrementalMode]: each update as the merge emits it. A subscriber that falls
//     behind gets a reset.
//   - [Stream] in the snapshot modes: all pods at each change, as in the kubelet's snapshot
//     modes. A subscriber that falls behind gets a reset.
//   - [Names]: the pod of each name, for the Kubernetes API. A subscriber that falls behind gets
//     an error, and lists again.
//   - [UIDs]: the pod of each UID, for the kubelet's Pods API. A subscriber that falls behind
//     gets the difference.
//
// A subscriber reads frames until it closes the view:
//
//	cursor := view.Stream(j, view.StreamOptions{Since: &revision})
//	defer cursor.Close()
//	for {
//		frames, err := cursor.Next(ctx)
//		if err != nil {
//			return err
//		}
//		send(frames)
//		clear(frames)
//	}
//
// Each view can have a [Selector]. The newest sets cache the frames of views. So subscribers
// with the same view and the same selector share them.
//
// # Frames
//
// A frame is an update, or a small piece of one (see PieceSize). A subscriber takes some
// frames, encodes them, releases them, and only then waits for its client. So a slow
// subscriber holds no pods. It holds at most the bytes of a piece, or of the largest pod.
//
// # Revisions
//
// A frame has a revision only if the stream can be resumed after it. The current pods
// before the first bookmark, a reset, and the pieces of an update except its last have
// none.
package view

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Gate gives clients access to the pods of a journal. Each subject gets a Scope, which shows what the
// access rules allow.
type Gate struct {
	journal *journal.Journal

	// mu guards what follows. It is read-locked while pods are read for a subject. So the
	// revision at which the policy is replaced divides what was read before from what is read
	// after.
	mu     sync.RWMutex
	policy *access.Policy
	// changed is closed when the policy is replaced.
	changed chan struct{}
	// past are the latest replaced policies, the oldest first.
	past []pastPolicy
}

// pastPolicy is a policy that was replaced.
type pastPolicy struct {
	policy *access.Policy
	// unknown is true if the gate no longer has the policy.
	unknown bool
	// until is not before any revision that was read with the policy.
	until int64
}

// maxPast is the maximum number of replaced policies that are kept. Streams from before do not
// resume.
const maxPast = 16

// NewGate returns a gate. A policy that is nil shows everything.
func NewGate(j *journal.Journal, policy *access.Policy) *Gate {
	return &Gate{journal: j, policy: policy, changed: make(chan struct{})}
}

// Distrust makes all streams start again that resume from a revision up to this one. The gate does
// not know the policy that was in force then.
func (g *Gate) Distrust(until int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past = []pastPolicy{{unknown: true, until: until}}
}

// SetPolicy replaces the policy. A subscriber for which something changes gets a reset, or the
// equivalent of its protocol. SetPolicy returns a revision that is not before any that was read with the old
// policy. It does not wait for the store. A subscriber that reads before the store has answered gets one more
// reset if it resumes from there.
func (g *Gate) SetPolicy(policy *access.Policy) (before int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.journal.Advance()
	g.past = append(g.past, pastPolicy{policy: g.policy, until: before})
	if n := len(g.past) - maxPast; n > 0 {
		g.past = slices.Delete(g.past, 0, n)
		g.past[0] = pastPolicy{unknown: true, until: g.past[0].until}
	}
	g.policy = policy
	close(g.changed)
	g.changed = make(chan struct{})
	return before
}

// Scope returns what a subject sees. It is never nil. With an error, it shows nothing.
func (g *Gate) Scope(s access.Subject) (*Scope, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.scopeLocked(s)
}

func (g *Gate) scopeLocked(s access.Subject) (*Scope, error) {
	grant, err := g.policy.For(s)
	return &Scope{gate: g, subject: s, grant: grant, changed: g.changed}, err
}

// Revision returns the newest revision.
func (g *Gate) Revision() int64 { return g.journal.Revision() }

// CheckKnown returns an error with the sources that are neither seen nor restored, or nil.
func (g *Gate) CheckKnown() error { return g.journal.CheckKnown() }

// WaitKnown waits until every source has been seen or restored.
func (g *Gate) WaitKnown(ctx context.Context) error { return g.journal.WaitKnown(ctx) }

// Restored returns the names of the sources that are restored and not seen.
func (g *Gate) Restored() []string { return g.journal.Restored() }

// resumable returns nil if the subject had this grant at the revision, and otherwise why it can't
// resume.
func (g *Gate) resumable(s access.Subject, grant *access.Grant, revision int64) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, p := range slices.Backward(g.past) {
		if revision > p.until {
			return nil
		}
		var before *access.Grant
		err := error(nil)
		if !p.unknown {
			before, err = p.policy.For(s)
		}
		if p.unknown || err != nil || before.Key() != grant.Key() {
			return journal.Compacted(journal.ResetAccess, fmt.Sprintf("the access rules changed after revision %d", revision))
		}
	}
	return nil
}
