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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// MaxRetention is the maximum of Options.Retention.
const MaxRetention = 7 * 24 * time.Hour

// ended has the pods that were removed from their source, for as long as they are kept.
type ended struct {
	retention time.Duration
	most      int
	// all has them, the oldest first.
	all []*endedPod
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
	revision     int64
	at           time.Time
	// reduced is the protobuf of what reduce returns.
	reduced []byte
}

func newEnded(retention time.Duration, most int) *ended {
	return &ended{
		retention: retention, most: most,
		byUID: make(map[types.UID]*endedPod), byStatic: make(map[types.UID][]*endedPod),
		byIP: make(map[netip.Addr][]*endedPod), byContainer: make(map[uint64]*endedPod), seed: maphash.MakeSeed(),
	}
}

// reduce returns a pod with the fields that answers have, without its name and UID.
func reduce(pod *v1.Pod) *v1.Pod {
	reduced := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels},
		Spec:       v1.PodSpec{NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork},
		Status: v1.PodStatus{
			Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, PodIPs: pod.Status.PodIPs, StartTime: pod.Status.StartTime,
			Reason: pod.Status.Reason,
		},
	}
	for _, key := range []string{v1.MirrorPodAnnotationKey, networkStatus} {
		if value, ok := pod.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&reduced.ObjectMeta, key, value)
		}
	}
	// Answers do not tell apart the three kinds.
	for _, s := range containerStatuses(&pod.Status) {
		reduced.Status.ContainerStatuses = append(reduced.Status.ContainerStatuses, v1.ContainerStatus{
			Name: s.Name, ContainerID: s.ContainerID, RestartCount: s.RestartCount,
			State:                v1.ContainerState{Running: s.State.Running, Terminated: terminated(s.State.Terminated)},
			LastTerminationState: v1.ContainerState{Terminated: terminated(s.LastTerminationState.Terminated)},
		})
	}
	return reduced
}

// terminated returns the state of a container without its message, which can be long.
func terminated(t *v1.ContainerStateTerminated) *v1.ContainerStateTerminated {
	if t == nil {
		return nil
	}
	short := *t
	short.Message = ""
	return &short
}

func containerStatuses(status *v1.PodStatus) []v1.ContainerStatus {
	return slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses)
}

// containerIDs returns the IDs of the containers that a status has, without the name of the runtime.
func containerIDs(status *v1.PodStatus) (ids []string) {
	for _, s := range containerStatuses(status) {
		if s.ContainerID != "" {
			ids = append(ids, bare(s.ContainerID))
		}
		if t := s.LastTerminationState.Terminated; t != nil && t.ContainerID != "" {
			ids = append(ids, bare(t.ContainerID))
		}
	}
	return ids
}

// add adds a pod that was removed at some time. Pods come in any order of these times only after a start.
func (e *ended) add(pod *journal.Pod, at time.Time) {
	e.remove(pod.Object.UID)
	reduced := reduce(pod.Object)
	data, err := reduced.Marshal()
	if err != nil {
		return // it can't happen: the journal has marshaled the pod
	}
	static, mirror := staticUID(pod)
	p := &endedPod{
		uid: types.UID(strings.Clone(string(pod.Object.UID))), static: types.UID(strings.Clone(string(static))), mirror: mirror, name: nameOf(pod), source: pod.Source,
		revision: pod.Revision, at: at, reduced: data,
	}
	i := len(e.all)
	for i > 0 && e.all[i-1].at.After(at) {
		i--
	}
	e.all = slices.Insert(e.all, i, p)
	e.byUID[p.uid] = p
	if mirror {
		e.byStatic[p.static] = append(e.byStatic[p.static], p)
	}
	for _, ip := range ips(reduced) {
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

// forget forgets pods that ended longer ago than the retention, and the oldest ones beyond the limit.
func (e *ended) forget(now time.Time) {
	n := max(0, len(e.all)-e.most)
	for n < len(e.all) && now.Sub(e.all[n].at) > e.retention {
		n++
	}
	for _, p := range e.all[:n] {
		e.drop(p)
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
func (e *ended) mirrorOf(uid types.UID, name string) *endedPod {
	for _, p := range slices.Backward(e.byStatic[uid]) {
		if name == "" || p.name == name {
			return p
		}
	}
	return nil
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
	return version{Pod: journal.NewPod(p.source, p.object()).At(p.revision), ended: &p.at}
}

// lastState returns a container as the last status of its pod has it, if the pod ended; otherwise nil. uid is the UID of the pod:
// the one that the cgroup names, or else that of the pod that ended. A container of another pod than the cgroup names does not
// count: the client may not see that pod.
func (p *pods) lastState(c CgroupContainer) (last *v1alpha1.LookupContainer, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := c.ID
	e := p.ended.byContainer[maphash.String(p.ended.seed, id)]
	if e == nil || c.PodUID != "" && c.PodUID != e.uid {
		return nil, c.PodUID
	}
	for _, s := range containerStatuses(&e.object().Status) {
		if bare(s.ContainerID) == id {
			return lastOf(&s), e.uid
		}
		if t := s.LastTerminationState.Terminated; t != nil && bare(t.ContainerID) == id {
			s.RestartCount, s.ContainerID, s.State = max(0, s.RestartCount-1), t.ContainerID, s.LastTerminationState
			return lastOf(&s), e.uid
		}
	}
	return nil, c.PodUID
}

// lastOfLog returns the container of a log as the last status of a pod that ended has it; nil if there is none.
func (p *pods) lastOfLog(log *logFile) *v1alpha1.LookupContainer {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range []*endedPod{p.ended.ofUID(log.uid), p.ended.mirrorOf(log.uid, log.pod.String())} {
		if e == nil {
			continue
		}
		for _, s := range containerStatuses(&e.object().Status) {
			if s.Name == log.container && int(s.RestartCount) == log.restarts && s.ContainerID != "" {
				return lastOf(&s)
			}
		}
	}
	return nil
}

func lastOf(s *v1.ContainerStatus) *v1alpha1.LookupContainer {
	c := &v1alpha1.LookupContainer{ID: bare(s.ContainerID), Name: s.Name, Restarts: int(s.RestartCount), State: pleg.StateUnknown.String()}
	switch t, r := s.State.Terminated, s.State.Running; {
	case t != nil:
		c.State, c.ExitCode = pleg.StateExited.String(), &t.ExitCode
		if !t.StartedAt.IsZero() {
			c.Started = &t.StartedAt.Time
		}
		if !t.FinishedAt.IsZero() {
			c.Ended = &t.FinishedAt.Time
		}
	case r != nil && !r.StartedAt.IsZero():
		c.Started = &r.StartedAt.Time
	}
	return c
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

// errNoLog is why an answer has not the whole pod.
var errNoLog = errors.New("it has ended, and only a log has whole pods that ended: start podconfigd with --state-dir")

// addWhole adds to the answer the whole pods that ended, from the log. The error is the cause of the context.
func (l *Lookup) addWhole(ctx context.Context, scope *view.Scope, q *Query, answer *v1alpha1.Lookup) error {
	for i := range answer.Pods {
		p := &answer.Pods[i]
		if !q.Pods || p.Ended == nil || p.Source == "" {
			continue
		}
		err := errNoLog
		if l.wholePod != nil {
			var pod *journal.Pod
			if pod, err = l.wholePod(ctx, types.UID(p.UID), *p.Ended); err == nil {
				if pod = scope.See(pod); pod != nil {
					p.Pod = whole(pod.Object)
				}
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			p.PodMissing = err.Error()
		}
	}
	return nil
}
