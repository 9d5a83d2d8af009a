package lookup

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// syncBatch is the number of sets that are read from the journal at once.
const syncBatch = 64

// pods is an index of the pods of the journal. Each query first reads the new sets of the journal, so an answer has every
// change that its client has seen on the stream.
type pods struct {
	journal *journal.Journal

	mu       sync.Mutex // guards what follows; it is locked before the mutex of the journal
	instance string
	revision int64
	buffer   []*journal.Set
	byUID    map[types.UID]*journal.Pod
	// byStatic has the pods that are annotated as mirror pods, by the UID of the static pod that the annotation names. Everybody
	// who may create pods can write the annotation: see mirrorOf.
	byStatic map[types.UID][]*journal.Pod
	// byIP has the pods that the Kubernetes API shows, and the mirror pods.
	byIP map[netip.Addr][]*journal.Pod
	// ended has the removed pods.
	ended *ended
	// waiting has who waits for a pod of a key, which is a types.UID or a netip.Addr.
	waiting await.Keys[any]
}

func newPods(j *journal.Journal, ended *ended) *pods {
	return &pods{
		journal: j, waiting: make(await.Keys[any]), ended: ended,
		byUID: make(map[types.UID]*journal.Pod), byStatic: make(map[types.UID][]*journal.Pod), byIP: make(map[netip.Addr][]*journal.Pod),
	}
}

// sync applies the new sets of the journal. It returns a channel that is closed when the journal has another one.
func (p *pods) sync() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.syncLocked()
}

// read applies the new sets of the journal, sets the instance and the revision of an answer, and calls do with the mutex
// locked.
func (p *pods) read(answer *v1alpha1.Lookup, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncLocked()
	answer.Instance, answer.Revision = p.instance, p.revision
	do()
}

// has reports whether a source has, or had, a pod with the UID.
func (p *pods) has(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncLocked()
	return p.ofUID(uid, "") != nil
}

func (p *pods) syncLocked() <-chan struct{} {
	for {
		if p.instance == "" {
			p.restart()
		}
		r, err := p.journal.After(p.revision, p.buffer[:0], syncBatch)
		if err != nil || r.Instance != p.instance {
			p.restart()
			continue
		}
		for i, set := range r.Sets {
			p.take(set)
			r.Sets[i] = nil
		}
		p.buffer = r.Sets
		if r.Changed != nil {
			p.ended.forget(time.Now())
			return r.Changed
		}
	}
}

// take applies a set.
func (p *pods) take(s *journal.Set) {
	p.revision = s.Revision
	for _, c := range s.UIDs {
		p.changeUID(c.Before, c.After, s.Time)
	}
	for _, c := range s.Names {
		p.changeName(c.Before, c.After)
	}
}

// restart replaces all pods by the present ones of the journal. It is for a journal that no longer has the sets after the
// revision.
func (p *pods) restart() {
	now := p.journal.Shown()
	before := p.byUID
	p.instance, p.revision = now.Instance, now.Revision
	p.byUID = make(map[types.UID]*journal.Pod, len(now.UIDs))
	clear(p.byStatic)
	clear(p.byIP)
	for _, pod := range now.UIDs {
		p.changeUID(nil, pod, time.Time{})
		delete(before, pod.Object.UID)
	}
	for _, pod := range now.Names {
		p.changeName(nil, pod)
	}
	at := time.Now()
	for _, pod := range before {
		p.ended.add(pod, at)
	}
}

// changeUID replaces the pod with a UID. before is nil for a new pod, after for a removed one.
func (p *pods) changeUID(before, after *journal.Pod, at time.Time) {
	if before != nil {
		delete(p.byUID, before.Object.UID)
		if uid, mirror := staticUID(before); mirror {
			p.byStatic[uid] = without(p.byStatic[uid], before)
			if len(p.byStatic[uid]) == 0 {
				delete(p.byStatic, uid)
			}
			p.dropIPs(before)
		}
		if after == nil {
			p.ended.add(before, at)
		}
	}
	if after != nil {
		p.ended.remove(after.Object.UID)
		p.byUID[after.Object.UID] = after
		p.waiting.Wake(after.Object.UID)
		if uid, mirror := staticUID(after); mirror {
			p.byStatic[uid] = append(p.byStatic[uid], after)
			p.waiting.Wake(uid)
			p.addIPs(after)
		}
	}
}

// changeName replaces the pod that the Kubernetes API shows under a name. before is nil for a new name, after for a
// removed one. changeUID has the IPs of mirror pods.
func (p *pods) changeName(before, after *journal.Pod) {
	if before != nil && !isMirror(before) {
		p.dropIPs(before)
	}
	if after != nil && !isMirror(after) {
		p.addIPs(after)
	}
}

func (p *pods) addIPs(pod *journal.Pod) {
	for _, ip := range ips(pod.Object) {
		p.byIP[ip] = append(p.byIP[ip], pod)
		p.waiting.Wake(ip)
	}
}

func (p *pods) dropIPs(pod *journal.Pod) {
	for _, ip := range ips(pod.Object) {
		rest := without(p.byIP[ip], pod)
		if p.byIP[ip] = rest; len(rest) == 0 {
			delete(p.byIP, ip)
		}
	}
}

// without removes the earlier version of a pod from a list. Two sources can have a UID under two names.
func without(list []*journal.Pod, pod *journal.Pod) []*journal.Pod {
	return slices.DeleteFunc(list, func(other *journal.Pod) bool {
		return other.Object.UID == pod.Object.UID && other.Source == pod.Source && nameOf(other) == nameOf(pod)
	})
}

// expiry returns a channel that receives when the oldest removed pod is due to be forgotten; nil if there is none.
func (p *pods) expiry() <-chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.ended.expiry()
	if due.IsZero() {
		return nil
	}
	return time.After(time.Until(due))
}

// await returns a channel that is closed when one of the keys gets a pod. The caller must call stop.
func (p *pods) await(keys []any) (found <-chan struct{}, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting.Add(keys...)
	return w, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting.Remove(w, keys...)
	}
}
