package lookup

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// maxEndedPod is the limit of the reduced pods, in bytes, for each of the pods that are kept at most. Most pods take less than a
// kilobyte, but everybody who may create pods can give them long labels.
const maxEndedPod = 4 << 10

// ipMemory is the memory of an IP in the index, in bytes.
const ipMemory = 128

// ended has the pods that were removed from their source, for as long as they are kept.
type ended struct {
	retention time.Duration
	most      int
	// owners keeps what the owners of pods follow from: the references to their controllers, and their manifest files.
	owners bool
	// all has them, the oldest first. bytes is the sum of their sizes.
	all   []*endedPod
	bytes int
	// byUID, byStatic and byContainer have what is in all. byStatic has the pods that are annotated as mirror pods, by the UID of
	// the static pod. byContainer has hashes of the IDs of containers, which are long. Of two pods with one hash, the later one counts.
	byUID       map[types.UID]*endedPod
	byStatic    map[types.UID][]*endedPod
	byIP        map[netip.Addr][]*endedPod
	byContainer map[uint64]*endedPod
	seed        maphash.Seed
}

// endedPod is a pod that was removed from its source: what an answer needs of it.
type endedPod struct {
	uid types.UID
	// static is the UID of the static pod, if the pod is annotated as its mirror pod.
	static types.UID
	mirror bool
	// name is NAMESPACE/NAME.
	name, source string
	file         *config.File
	revision     int64
	at           time.Time
	// reduced is the protobuf of what reduce returns, and size the memory of it and of the pod's IPs, in bytes.
	reduced []byte
	size    int
}

func newEnded(retention time.Duration, most int) *ended {
	return &ended{
		retention: retention, most: most,
		byUID: make(map[types.UID]*endedPod), byStatic: make(map[types.UID][]*endedPod),
		byIP: make(map[netip.Addr][]*endedPod), byContainer: make(map[uint64]*endedPod), seed: maphash.MakeSeed(),
	}
}

// add adds a pod that was removed at some time. Pods come in any order of these times only after a start.
func (e *ended) add(pod *journal.Pod, at time.Time) {
	e.remove(pod.Object.UID)
	reduced := reduce(pod.Object, e.owners)
	data, err := reduced.Marshal()
	if err != nil {
		return // it can't happen: the journal has marshaled the pod
	}
	static, mirror := reduced.Annotations[v1.MirrorPodAnnotationKey] // not one that is too long
	found := ips(reduced)
	p := &endedPod{
		uid: types.UID(strings.Clone(string(pod.Object.UID))), static: types.UID(strings.Clone(static)), mirror: mirror, name: nameOf(pod), source: pod.Source,
		revision: pod.Revision, at: at, reduced: data, size: len(data) + len(static) + ipMemory*len(found),
	}
	if e.owners && pod.File != nil {
		p.file = pod.File
		p.size += len(p.file.Path)
	}
	i := len(e.all)
	for i > 0 && e.all[i-1].at.After(at) {
		i--
	}
	e.all = slices.Insert(e.all, i, p)
	e.bytes += p.size
	e.byUID[p.uid] = p
	if mirror {
		e.byStatic[p.static] = append(e.byStatic[p.static], p)
	}
	for _, ip := range found {
		e.byIP[ip] = append(e.byIP[ip], p)
	}
	for _, id := range containerIDs(&reduced.Status) {
		e.byContainer[maphash.String(e.seed, id)] = p
	}
	e.forget(time.Now())
}

// remove removes a pod that is back.
func (e *ended) remove(uid types.UID) {
	p := e.byUID[uid]
	if p == nil {
		return // most pods: do not search the list
	}
	e.drop(p)
	e.all = slices.DeleteFunc(e.all, func(other *endedPod) bool { return other == p })
}

// drop removes a pod from the indexes.
func (e *ended) drop(p *endedPod) {
	e.bytes -= p.size
	delete(e.byUID, p.uid)
	if p.mirror {
		dropFrom(e.byStatic, p.static, p)
	}
	object := p.object()
	for _, ip := range ips(object) {
		dropFrom(e.byIP, ip, p)
	}
	for _, id := range containerIDs(&object.Status) {
		if hash := maphash.String(e.seed, id); e.byContainer[hash] == p {
			delete(e.byContainer, hash)
		}
	}
}

func dropFrom[K comparable](index map[K][]*endedPod, key K, p *endedPod) {
	rest := slices.DeleteFunc(index[key], func(other *endedPod) bool { return other == p })
	if index[key] = rest; len(rest) == 0 {
		delete(index, key)
	}
}

// forget forgets pods that ended longer ago than the retention, and the oldest ones beyond the limits.
func (e *ended) forget(now time.Time) {
	n := 0
	for n < len(e.all) && (len(e.all)-n > e.most || e.bytes > e.most*maxEndedPod || now.Sub(e.all[n].at) > e.retention) {
		e.drop(e.all[n])
		n++
	}
	e.all = slices.Delete(e.all, 0, n)
}

// expiry returns when the oldest pod is due to be forgotten; zero if there is none.
func (e *ended) expiry() time.Time {
	if len(e.all) == 0 {
		return time.Time{}
	}
	return e.all[0].at.Add(e.retention + time.Nanosecond)
}

// ofUID returns the pod with a UID, or nil.
func (e *ended) ofUID(uid types.UID) *endedPod { return e.byUID[uid] }

// mirrorOf returns the mirror pod of the static pod with a UID and a name that ended last, or nil. Without a name, it is the last
// one with the annotation.
func (e *ended) mirrorOf(uid types.UID, name string) (last *endedPod) {
	for _, p := range e.byStatic[uid] {
		if (name == "" || p.name == name) && (last == nil || !p.at.Before(last.at)) {
			last = p
		}
	}
	return last
}

// ofIP returns the pods with an IP, the one that ended last first.
func (e *ended) ofIP(ip netip.Addr) []*endedPod {
	found := slices.Clone(e.byIP[ip])
	slices.SortStableFunc(found, func(a, b *endedPod) int { return b.at.Compare(a.at) })
	return found
}

// object returns the pod with the fields that answers have.
func (p *endedPod) object() *v1.Pod {
	pod := new(v1.Pod)
	if err := pod.Unmarshal(p.reduced); err != nil {
		panic(fmt.Sprintf("lookup: an encoded pod can't be decoded: %v", err)) // it is ours
	}
	pod.UID = p.uid
	pod.Namespace, pod.Name, _ = strings.Cut(p.name, "/")
	return pod
}

// version returns the pod as an answer shows it.
func (p *endedPod) version() version {
	pod := journal.NewPod(p.source, p.object()).At(p.revision)
	pod.File = p.file
	return version{Pod: pod, ended: &p.at}
}

// load adds the pods that ended before the start.
func (l *Lookup) load(ctx context.Context) {
	defer close(l.loaded)
	if l.past == nil {
		return
	}
	l.pods.sync()
	for pod, at := range l.past(time.Now().Add(-l.pods.ended.retention)) {
		if ctx.Err() != nil {
			return
		}
		l.pods.addPast(pod, at)
	}
}

func (p *pods) addPast(pod *journal.Pod, at time.Time) {
	if now := time.Now(); at.After(now) {
		at = now // the clock was set back: it would be known for longer than the retention
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.syncLocked()
	uid := pod.Object.UID
	if before := p.ended.ofUID(uid); p.byUID[uid] == nil && (before == nil || before.at.Before(at)) {
		p.ended.add(pod, at)
	}
}

// isLoading reports whether pods that ended before the start may be missing.
func (l *Lookup) isLoading() bool {
	select {
	case <-l.loaded:
		return false
	default:
		return l.past != nil
	}
}

// These are why an answer has not the whole pod.
var (
	errNoLog = errors.New("it has ended, and only a log has whole pods that ended: start podconfigd with --state-dir")
	errGone  = errors.New("the journal in the state directory no longer has it")
)

// addWhole adds to the answer the whole pods that ended, from the log. The error is the cause of the context.
func (l *Lookup) addWhole(ctx context.Context, scope *view.Scope, q *Query, answer *v1alpha1.Lookup) error {
	ended := func(p *v1alpha1.LookupPod) bool { return q.Pods && p.Ended != nil && p.Source != "" }
	at := make(map[types.UID]time.Time)
	for i := range answer.Pods {
		if p := &answer.Pods[i]; ended(p) {
			at[types.UID(p.UID)] = *p.Ended
		}
	}
	var pods map[types.UID]*journal.Pod
	if l.wholePods != nil && len(at) > 0 {
		if pods = l.wholePods(ctx, at); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for i := range answer.Pods {
		p := &answer.Pods[i]
		if !ended(p) {
			continue
		}
		pod := pods[types.UID(p.UID)]
		switch {
		case l.wholePods == nil:
			p.PodMissing = errNoLog.Error()
		case pod == nil:
			p.PodMissing = errGone.Error()
		default:
			if pod = scope.See(pod); pod != nil {
				p.Pod = whole(pod.Object)
			}
		}
	}
	return nil
}
