package view

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// UIDs begins a subscription to the pod of each UID, for a protocol that can't have its
// clients forget what they hold: a UID that comes to have a pod is an ADD, one that has
// none any more a REMOVE, all else an UPDATE. A subscriber that falls behind is told what
// it has missed in sum; of a pod that went meanwhile the REMOVE has nothing but name,
// namespace and UID. It must be closed.
func UIDs(j *journal.Journal, opts Options) *Cursor {
	c := newCursor(j, string(IncrementalMode), nil, opts.Client)
	c.view = &uids{instance: j.Instance(), selector: opts.Selector, held: make(map[types.UID]held)}
	c.open("")
	return c
}

type uids struct {
	instance string
	selector Selector
	// held is what the subscriber has been told: no pods, so that it keeps none alive.
	held map[types.UID]held
}

// held is what is kept of a pod that a subscriber has been told.
type held struct {
	name     types.NamespacedName
	revision int64
}

func (v *uids) order() journal.Order { return journal.ByUID }

// begin removes what the subscriber holds and is not there any more.
func (v *uids) begin(s *journal.Snapshot, _ string) []*Frame {
	if len(v.held) == 0 {
		return nil
	}
	present, err := s.Pods(0, s.Len)
	if err != nil { // the next reading of the snapshot says so too
		return nil
	}
	there := make(map[types.UID]bool, len(present))
	for _, p := range present {
		there[p.Object.UID] = true
	}
	var gone []*journal.Pod
	for uid, h := range v.held {
		if !there[uid] {
			gone = append(gone, journal.NewPod("", &v1.Pod{ObjectMeta: metav1.ObjectMeta{
				UID: uid, Namespace: h.name.Namespace, Name: h.name.Name,
			}}))
		}
	}
	slices.SortFunc(gone, func(a, b *journal.Pod) int { return cmp.Compare(a.Object.UID, b.Object.UID) })
	return pieces(&Frame{Instance: v.instance}, batch{op: config.REMOVE, pods: gone})
}

func (v *uids) end(*journal.Snapshot) []*Frame { return nil }

// present returns the first pods that the subscriber does not hold as they are, as far as
// they have one operation in common.
func (v *uids) present(pods []*journal.Pod, _ bool) (*Frame, int) {
	var f *Frame
	for i, p := range pods {
		before, holds := v.held[p.Object.UID]
		op := config.ADD
		switch is := v.selector.Matches(p); {
		case !is && !holds:
			continue
		case !is:
			op = config.REMOVE
		case holds && before.revision == p.Revision:
			continue
		case holds:
			op = config.UPDATE
		}
		if f == nil {
			f = &Frame{Instance: v.instance, Op: op}
		} else if f.Op != op || f.size+p.Size() > PieceSize {
			return f, i
		}
		f.Pods = append(f.Pods, p)
		f.size += p.Size()
	}
	return f, len(pods)
}

// delivered keeps what the subscriber holds.
func (v *uids) delivered(f *Frame) {
	for _, p := range f.Pods {
		if f.Op == config.REMOVE {
			delete(v.held, p.Object.UID)
			continue
		}
		v.held[p.Object.UID] = held{
			types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}, p.Revision,
		}
	}
}

// behind: the subscriber is told the difference.
func (v *uids) behind(error) error { return nil }

func (v *uids) frames(set *journal.Set) ([]*Frame, error) {
	return journal.Once(&set.Memo, uidsKey{v.selector.selection()}, func() ([]*Frame, error) {
		return changes(v.instance, &v.selector, set, set.UIDs), nil
	})
}
