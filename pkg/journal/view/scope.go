package view

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/podmask"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Scope is what a subject sees of a journal. A Scope that is nil shows everything: it is that of
// cursors which do not come from a Gate.
type Scope struct {
	gate    *Gate
	subject access.Subject
	grant   *access.Grant
	// changed is closed when the rules are replaced.
	changed <-chan struct{}
}

// Subject returns the subject.
func (s *Scope) Subject() access.Subject { return s.subject }

// Grant returns the grant of the subject by the present rules; nil for everything.
func (s *Scope) Grant() *access.Grant {
	if s == nil {
		return nil
	}
	l, unlock := s.lens(Selector{})
	defer unlock()
	return l.grant
}

// granted returns the grant by the rules that were the present ones when the scope was made; nil for
// everything. A cursor replaces its scope when it reads.
func (s *Scope) granted() *access.Grant {
	if s == nil {
		return nil
	}
	return s.grant
}

// See returns the pod as the subject sees it; nil if it is hidden.
func (s *Scope) See(p *journal.Pod) *journal.Pod { return (&lens{grant: s.Grant()}).see(p) }

// Sees reports whether the subject sees a pod of that name of any source, if there is one. A
// subject that sees everything sees each name.
func (s *Scope) Sees(name types.NamespacedName) bool {
	return s.Grant() == nil || slices.ContainsFunc(s.State(Selector{Namespace: name.Namespace}, nil).Pods, func(p *journal.Pod) bool { return p.Object.Name == name.Name })
}

// SeesRuntimePod reports whether the subject sees a pod of the container runtime, of which only
// UID and namespace are known: the pod of that UID, or, if no source has it, all pods that it
// can be.
func (s *Scope) SeesRuntimePod(uid types.UID, namespace string) bool {
	l, unlock := s.lens(Selector{})
	defer unlock()
	if p := s.gate.journal.ByUID(uid); p != nil {
		return l.see(p) != nil
	}
	return l.grant.AtLeast("", namespace).Level() != access.None
}

// State returns the current state, with the pods that the subject sees and the selector
// selects, and with only some fields of them, unless these are nil.
func (s *Scope) State(selector Selector, fields *podmask.Mask) journal.State {
	l, unlock := s.lens(selector)
	defer unlock()
	l.fields = fields
	state := s.gate.journal.State()
	state.Pods = l.filter(state.Pods)
	return state
}

// ByUID returns the pod of each UID that the subject sees and the selector selects, ordered by
// UID.
func (s *Scope) ByUID(selector Selector) ([]*journal.Pod, error) {
	l, unlock := s.lens(selector)
	defer unlock()
	snapshot := s.gate.journal.Snapshot(journal.ByUID)
	pods, err := snapshot.Pods(0, snapshot.Len)
	return l.filter(pods), err
}

// WithUID returns the pod of a UID, or nil.
func (s *Scope) WithUID(uid types.UID, selector Selector) *journal.Pod {
	l, unlock := s.lens(selector)
	defer unlock()
	return l.see(s.gate.journal.ByUID(uid))
}

// WithName returns the pod of a name, or nil.
func (s *Scope) WithName(name types.NamespacedName) *journal.Pod {
	l, unlock := s.lens(Selector{})
	defer unlock()
	return l.see(s.gate.journal.ByName(name))
}

// Named returns the pod of each name at a revision that the subject sees and the selector
// selects; see journal.Named.
func (s *Scope) Named(at int64, selector Selector) ([]*journal.Pod, int64, error) {
	l, unlock := s.lens(selector)
	defer unlock()
	pods, revision, err := s.gate.journal.Named(at)
	return l.filter(pods), revision, err
}

// lens returns the lens by the present rules. They are not replaced before unlock.
func (s *Scope) lens(selector Selector) (l *lens, unlock func()) {
	s.gate.mu.RLock()
	grant := s.grant
	if next := s.renewedLocked(); next != nil {
		grant = next.grant
	}
	return &lens{selector: selector, grant: grant}, s.gate.mu.RUnlock
}

// Stream starts a subscription as the function Stream does.
func (s *Scope) Stream(opts StreamOptions) *Cursor {
	opts.scope = s
	return Stream(s.gate.journal, opts)
}

// Names starts a subscription as the function Names does.
func (s *Scope) Names(opts NamesOptions) *Cursor {
	opts.scope = s
	return Names(s.gate.journal, opts)
}

// UIDs starts a subscription as the function UIDs does.
func (s *Scope) UIDs(opts Options) *Cursor {
	opts.scope = s
	return UIDs(s.gate.journal, opts)
}

// renewedLocked returns the scope by the present rules; nil if they have not been replaced. The
// mutex of the gate is read-locked.
func (s *Scope) renewedLocked() *Scope {
	select {
	case <-s.changed:
		next, _ := s.gate.scopeLocked(s.subject) // with an error, it shows nothing
		return next
	default:
		return nil
	}
}

// replaced returns the channel that is closed when the rules are replaced; nil for a nil scope.
func (s *Scope) replaced() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.changed
}

// resumable returns nil if the subject saw the same at a revision as it sees now, and
// otherwise the reason.
func (s *Scope) resumable(revision int64) error {
	if s == nil {
		return nil
	}
	return s.gate.resumable(s.subject, s.grant, revision)
}
