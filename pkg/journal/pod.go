package journal

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Pod is one version of a pod. It is immutable, and all subscribers share it.
type Pod struct {
	// Object is the pod. It is read-only.
	Object *v1.Pod
	// Merged is the pod as the merge emitted it. It is Object, unless Status is set.
	Merged *v1.Pod
	// Status is the status of Object if the sync loop set it; otherwise nil.
	Status *v1.PodStatus
	// Source is the name of the pod's source.
	Source string
	// Revision is the revision of this version.
	Revision int64
	// File is the manifest file of this version, or nil.
	File *config.File
	// Owners are the known owners, from the controller to the top. They are no part of Object, and a version with others has the
	// revision of this one. A form that leaves out the owner references has none of those that follow from them.
	Owners []v1alpha1.Owner
	// Fields are the only fields that Object has; nil for all.
	Fields *podfields.Mask
	// Memo caches the encodings of the version.
	*Memo

	// size is the size of the pod as protobuf, in bytes.
	size int
	rank rank
}

// memoryFactor is the memory of a pod per byte of its protobuf: about 6 bytes for the
// object, 2 for its JSON and 1 for the protobuf. Measured for pods of one container (330
// bytes) and of three with ten variables each (1347 bytes).
const memoryFactor = 9

// encodedFactor is the part of it that versions with the same object do not share.
const encodedFactor = 3

// NewPod returns a version of a pod that is not in a journal yet.
func NewPod(source string, object *v1.Pod) *Pod { return newPod(source, object, nil) }

// newPod returns a version with the given status in place of the pod's own; nil keeps the pod's
// own.
func newPod(source string, merged *v1.Pod, status *v1.PodStatus) *Pod {
	object := config.WithStatus(merged, status)
	return &Pod{
		Object: object, Merged: merged, Status: status, Source: source, Memo: new(Memo), size: object.Size(), rank: rankOf(object),
	}
}

// Size returns the pod's size as protobuf, in bytes.
func (p *Pod) Size() int { return p.size }

// At returns the same version with another revision.
func (p *Pod) At(revision int64) *Pod {
	if p.Revision == revision {
		return p
	}
	other := *p
	other.Revision = revision
	return &other
}

// owned returns the same version with other owners.
func (p *Pod) owned(owners []v1alpha1.Owner) *Pod {
	other := *p
	other.Owners, other.Memo = owners, new(Memo) // it caches forms with the owners
	return &other
}

// podKey identifies a pod: versions of the same pod have the same key.
type podKey struct {
	source string
	uid    types.UID
}

func (p *Pod) key() podKey { return podKey{p.Source, p.Object.UID} }

func (p *Pod) name() types.NamespacedName {
	return types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
}

// Derive returns a form of the pod: compute makes its object from that of the pod. Each form is
// made once for each key, and has the revision and the source of the pod, and with file also its manifest file.
func (p *Pod) Derive(key any, file bool, compute func(*v1.Pod) *v1.Pod) *Pod {
	form, _ := Once(p.Memo, key, func() (*Pod, error) { // it never fails
		form := p.form(nil, compute)
		if len(form.Object.OwnerReferences) == 0 && (len(p.Object.OwnerReferences) > 0 || p.Source == config.ApiserverSource) {
			form.Owners = nil // without references, they are those from before the pod was orphaned
		}
		if file {
			form.File = p.File
		} else {
			form.Owners = slices.DeleteFunc(slices.Clone(form.Owners), v1alpha1.Owner.IsFile)
		}
		return form, nil
	})
	return form.At(p.Revision)
}

func (p *Pod) form(fields *podfields.Mask, compute func(*v1.Pod) *v1.Pod) *Pod {
	object := compute(p.Object)
	return &Pod{
		Object: object, Merged: object, Source: p.Source, Revision: p.Revision, Owners: p.Owners, Fields: fields, Memo: new(Memo),
		size: object.Size(),
	}
}

// Only returns the pod with only these fields. Subscribers that request the same fields at the same
// time share this form.
func (p *Pod) Only(fields *podfields.Mask) *Pod {
	forms, _ := Once(p.Memo, onlyKey{}, func() (*masked, error) { return new(masked), nil }) // it never fails
	return forms.maskedForm(p, fields).At(p.Revision)
}

// onlyKey is the key of the masked forms in the memo of a pod.
type onlyKey struct{}

// masked are the forms of a pod with only some fields. Clients choose the fields, so the forms are
// kept only as long as a subscriber, or a set that keeps its frames, needs them.
type masked struct {
	mu    sync.Mutex
	forms map[podfields.MaskKey]weak.Pointer[Pod]
}

func (m *masked) maskedForm(p *Pod, fields *podfields.Mask) *Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if form := m.forms[fields.Key()].Value(); form != nil {
		return form
	}
	if len(m.forms) >= maxDerived {
		maps.DeleteFunc(m.forms, func(_ podfields.MaskKey, form weak.Pointer[Pod]) bool { return form.Value() == nil })
	}
	form := p.form(fields, fields.Apply)
	if len(m.forms) < maxDerived {
		if m.forms == nil {
			m.forms = make(map[podfields.MaskKey]weak.Pointer[Pod])
		}
		m.forms[fields.Key()] = weak.Make(form)
	}
	return form
}

// Memo caches values that are derived from an immutable value. The first subscriber that
// needs one computes it, and all share it. The zero value is empty. It is safe for
// concurrent use.
type Memo struct{ first atomic.Pointer[derived] }

// maxDerived is the maximum number of values in a Memo. Clients choose the selections,
// and so the number of values. Further values are computed each time.
const maxDerived = 16

// derived is one derived value. They form a list, because there are few.
type derived struct {
	key  any
	next *derived

	mu    sync.Mutex
	done  atomic.Bool // value and err are set
	value any
	err   error
}

// Once returns the result of the first call of compute for the key. Each key has one type
// of value. A key that is a pointer or a [unique.Handle] costs no allocation.
func Once[T any](m *Memo, key any, compute func() (T, error)) (T, error) {
	d := m.find(key)
	if !d.done.Load() {
		fill(d, compute)
	}
	value, _ := d.value.(T) // each key has one type
	return value, d.err
}

// fill computes the value. A sync.Once would make each call of Once allocate a function.
func fill[T any](d *derived, compute func() (T, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.done.Load() {
		d.value, d.err = compute()
		d.done.Store(true)
	}
}

func (m *Memo) find(key any) *derived {
	var added *derived
	for {
		first, length := m.first.Load(), 0
		for d := first; d != nil; d = d.next {
			if d.key == key {
				return d
			}
			length++
		}
		if added == nil {
			added = &derived{key: key}
		}
		if first == forgotten || length >= maxDerived {
			return added // only for this caller
		}
		added.next = first
		if m.first.CompareAndSwap(first, added) {
			return added
		}
	}
}

// forgotten is the list of a Memo that no longer caches.
var forgotten = new(derived)

// forget removes all cached values and stops caching.
func (m *Memo) forget() { m.first.Store(forgotten) }
