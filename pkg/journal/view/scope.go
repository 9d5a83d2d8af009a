package view

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Scope is what a subject sees of a journal. A nil Scope shows everything. Cursors that do not come from
// a Gate have it.
type Scope struct {
	gate    *Gate
	subject access.Subject
	grant   *access.Grant
	// changed is closed when the rules are replaced.
	changed <-chan struct{}
}

// Subject returns the subject.
func (s *Scope) Subject() access.Subject { return s.subject }

// Grant returns what the current rules grant to the subject; nil for everything.
func (s *Scope) Grant() *access.Grant {
	if s == nil {
		return nil
	}
	l, unlock, _ := s.lens(Selector{})
	defer unlock()
	return l.grant
}

// Err returns an error if the scope shows nothing because its rules are not known. After a change of
// the rules, the scope may have to read the names of the subject, and this can fail. Call Err before you
// answer that a pod does not exist.
func (s *Scope) Err() error {
	if s == nil {
		return nil
	}
	_, unlock, err := s.lens(Selector{})
	defer unlock()
	return err
}

// granted returns what the rules granted when the scope was made; nil for everything. A cursor replaces
// its scope when it reads.
func (s *Scope) granted() *access.Grant {
	if s == nil {
		return nil
	}
	return s.grant
}

// See returns the pod as the subject sees it; nil if it is hidden.
func (s *Scope) See(p *journal.Pod) *journal.Pod { return (&lens{grant: s.Grant()}).see(p) }

// Within calls do with what the current rules grant, and with a function that returns a pod as the subject sees it, or nil if it is
// hidden or not selected. The rules are not replaced before do returns. The error is that of Err; then do is not called.
func (s *Scope) Within(selector Selector, do func(grant *access.Grant, see func(*journal.Pod) *journal.Pod)) error {
	if s == nil {
		do(nil, (&lens{selector: selector}).see)
		return nil
	}
	l, unlock, err := s.lens(selector)
	defer unlock()
	if err == nil {
		do(l.grant, l.see)
	}
	return err
}

// Sees reports whether the subject sees a pod of that name. A subject that sees everything sees each
// name, even if there is no pod.
func (s *Scope) Sees(name types.NamespacedName) bool {
	if s.Grant() == nil {
		return true
	}
	state, _ := s.State(Selector{Namespace: name.Namespace}, nil) // with an error, it has no pods
	return slices.ContainsFunc(state.Pods, func(p *journal.Pod) bool { return p.Object.Name == name.Name })
}

// SeesRuntimePod reports whether the subject sees a pod of the container runtime. Only its UID and
// namespace are known. If no source has the UID, the subject must see all pods that it can be.
func (s *Scope) SeesRuntimePod(uid types.UID, namespace string) bool {
	l, unlock, _ := s.lens(Selector{})
	defer unlock()
	if p := s.gate.journal.ByUID(uid); p != nil {
		return l.see(p) != nil
	}
	return l.grant.AtLeast("", namespace).Level() != access.None
}

// State returns the current state, with the pods that the subject sees and the selector selects. The
// pods have only the fields; nil means all. The error is that of Err.
func (s *Scope) State(selector Selector, fields *podfields.Mask) (journal.State, error) {
	l, unlock, err := s.lens(selector)
	defer unlock()
	l.fields = fields
	state := s.gate.journal.State()
	state.Pods = l.filter(state.Pods)
	return state, err
}

// ByUID returns the pod of each UID that the subject sees and the selector selects, ordered by
// UID.
func (s *Scope) ByUID(selector Selector) ([]*journal.Pod, error) {
	l, unlock, err := s.lens(selector)
	defer unlock()
	if err != nil {
		return nil, err
	}
	snapshot := s.gate.journal.Snapshot(journal.ByUID)
	pods, err := snapshot.Pods(0, snapshot.Len)
	return l.filter(pods), err
}

// WithUID returns the pod of a UID, or nil.
func (s *Scope) WithUID(uid types.UID, selector Selector) *journal.Pod {
	l, unlock, _ := s.lens(selector)
	defer unlock()
	return l.see(s.gate.journal.ByUID(uid))
}

// WithName returns the pod of a name, or nil.
func (s *Scope) WithName(name types.NamespacedName) *journal.Pod {
	l, unlock, _ := s.lens(Selector{})
	defer unlock()
	return l.see(s.gate.journal.ByName(name))
}

// Named returns the pod of each name at a revision that the subject sees and the selector
// selects; see journal.Named.
func (s *Scope) Named(at int64, selector Selector) ([]*journal.Pod, int64, error) {
	l, unlock, err := s.lens(selector)
	defer unlock()
	if err != nil {
		return nil, 0, err
	}
	pods, revision, err := s.gate.journal.Named(at)
	return l.filter(pods), revision, err
}

// lens returns the lens of the current rules. The rules are not replaced before unlock. With an error,
// the lens shows nothing.
func (s *Scope) lens(selector Selector) (l *lens, unlock func(), err error) {
	s.gate.mu.RLock()
	grant := s.grant
	next, err := s.renewedLocked()
	if next != nil {
		grant = next.grant
	}
	return &lens{selector: selector, grant: grant}, s.gate.mu.RUnlock, err
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

// renewedLocked returns a scope with the current rules; nil if the rules are still those of this scope.
// With an error, the scope shows nothing. The mutex of the gate must be read-locked.
func (s *Scope) renewedLocked() (*Scope, error) {
	select {
	case <-s.changed:
		return s.gate.scopeLocked(s.subject)
	default:
		return nil, nil //nolint:nilnil // nil is the scope as it is
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

// Objects returns the nodes or the namespaces that the subject sees at a revision, by name, and
// the revision: all nodes, and the namespaces in which it sees a pod. 0 means the newest revision.
// The error is a CompactedError, or that of Err.
func (s *Scope) Objects(kind journal.Kind, at int64) ([]*journal.Object, int64, error) {
	l, unlock, err := s.lens(Selector{})
	defer unlock()
	if err != nil {
		return nil, 0, err
	}
	objects, revision, err := s.gate.journal.Objects(kind, at)
	if err != nil || l.plain() {
		return objects, revision, err
	}
	return seenObjects(s.gate.journal, l, kind, objects, revision)
}

// Object returns the current node or namespace of a name; nil if there is none or it is hidden.
func (s *Scope) Object(kind journal.Kind, name string) *journal.Object {
	l, unlock, _ := s.lens(Selector{})
	defer unlock()
	return seenObject(s.gate.journal, l, kind, name)
}

// WatchObjects starts a subscription as the function Objects does.
func (s *Scope) WatchObjects(opts ObjectsOptions) *Cursor {
	opts.scope = s
	return Objects(s.gate.journal, opts)
}

// seenObject returns the current object of a name as the lens shows it, or nil.
func seenObject(j *journal.Journal, l *lens, kind journal.Kind, name string) *journal.Object {
	object := j.Object(kind, name)
	if object == nil || l.plain() {
		return object
	}
	if kind != journal.Namespaces {
		return withoutTraces(object)
	}
	for p := range j.InNamespace(name) {
		if l.see(p) != nil {
			return object
		}
	}
	return nil
}

func seenObjects(j *journal.Journal, l *lens, kind journal.Kind, objects []*journal.Object, at int64) ([]*journal.Object, int64, error) {
	seen := make([]*journal.Object, 0, len(objects))
	if kind != journal.Namespaces {
		for _, o := range objects {
			seen = append(seen, withoutTraces(o))
		}
		return seen, at, nil
	}
	pods, _, err := j.Named(at)
	namespaces := make(map[string]bool)
	for _, pod := range l.filter(pods) {
		namespaces[pod.Object.Namespace] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o *journal.Object) bool { return !namespaces[o.Object.GetName()] }), at, err
}

// withoutTraces returns a node without fields that reveal pods: its images and volumes.
func withoutTraces(o *journal.Object) *journal.Object {
	node, ok := o.Object.(*v1.Node)
	if !ok {
		return o
	}
	shown := *node
	shown.ManagedFields = nil
	shown.Status.Images, shown.Status.VolumesInUse, shown.Status.VolumesAttached = nil, nil, nil
	return &journal.Object{Object: &shown, Revision: o.Revision}
}
