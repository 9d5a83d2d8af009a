package pleg

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tombstoneAge is for how long a container that is gone is remembered, so that a
// late report does not bring it back.
const tombstoneAge = 10 * time.Minute

// startingAge is for how long a container that was created is taken for one that is
// about to be started.
const startingAge = time.Minute

// records are what is known of the runtime's pods. What changes them makes events.
type records struct {
	pods map[types.UID]*record
	// owner has the pod of each container and sandbox.
	owner map[string]types.UID
	// gone are the containers that were removed, and when.
	gone map[string]time.Time
}

type record struct {
	uid             types.UID
	namespace, name string
	containers      map[string]*known
}

type known struct {
	Container
	// since is when the event came that first told of the container, or the list was
	// asked for that first had it.
	since time.Time
}

func newRecords() *records {
	return &records{
		pods: make(map[types.UID]*record), owner: make(map[string]types.UID), gone: make(map[string]time.Time),
	}
}

// change is a container's way from one state to another.
type change struct {
	container Container
	from, to  State
}

// late tells whether a report of a state is older than what is known: a container
// never goes back, but for what the runtime has forgotten and found again.
func late(from, to State) bool { return from != StateUnknown && to < from }

// compare returns what a list that was asked for at the given time changes of a pod.
// Containers that it does not have are gone if they were known before.
func (r *records) compare(uid types.UID, pod *Pod, listed time.Time) (changes []change) {
	rec := r.pods[uid]
	reported := make(map[string]bool)
	if pod != nil {
		for _, c := range pod.Containers {
			reported[c.ID] = true
			if _, gone := r.gone[c.ID]; gone {
				continue
			}
			from := StateNone
			if rec != nil && rec.containers[c.ID] != nil {
				from = rec.containers[c.ID].State
			}
			if from != c.State && !late(from, c.State) {
				changes = append(changes, change{container: c, from: from, to: c.State})
			}
		}
	}
	if rec == nil {
		rec = &record{}
	}
	for id, k := range rec.containers {
		if !reported[id] && k.since.Before(listed) {
			changes = append(changes, change{container: k.Container, from: k.State, to: StateNone})
		}
	}
	sortChanges(changes)
	return changes
}

// sortChanges puts containers before sandboxes, as the kubelet has them, and the
// older before the younger.
func sortChanges(changes []change) {
	slices.SortFunc(changes, func(a, b change) int {
		if a.container.Sandbox != b.container.Sandbox {
			if b.container.Sandbox {
				return -1
			}
			return 1
		}
		return cmp.Or(a.container.CreatedAt.Compare(b.container.CreatedAt), cmp.Compare(a.container.ID, b.container.ID))
	})
}

// apply brings the records up to the changes, which an event told at the given time or
// a list that was asked for then has, and returns the events that they are.
func (r *records) apply(uid types.UID, pod *Pod, changes []change, at time.Time) (events []*PodLifecycleEvent) {
	rec := r.pods[uid]
	if rec == nil {
		if len(changes) == 0 {
			return nil
		}
		rec = &record{uid: uid, containers: make(map[string]*known)}
		r.pods[uid] = rec
	}
	if pod != nil {
		rec.namespace, rec.name = pod.Namespace, pod.Name
	}
	for _, c := range changes {
		id := c.container.ID
		for _, kind := range eventsOf(c.from, c.to) {
			e := &PodLifecycleEvent{
				ID: uid, Type: kind, Namespace: rec.namespace, Name: rec.name,
				ContainerID: id, Container: c.container.Name,
			}
			if kind == ContainerDied {
				e.ExitCode = c.container.ExitCode
			}
			events = append(events, e)
		}
		if c.to == StateNone {
			delete(rec.containers, id)
			delete(r.owner, id)
			r.gone[id] = at
			continue
		}
		k := &known{Container: c.container, since: at}
		k.State = c.to
		if before := rec.containers[id]; before != nil {
			k.since = before.since
		}
		rec.containers[id] = k
		r.owner[id] = uid
	}
	if len(rec.containers) == 0 {
		delete(r.pods, uid)
	}
	return events
}

// eventsOf returns what there is to tell of a change of state.
//
// kubelet: pkg/kubelet/pleg/generic.go generateEvents.
func eventsOf(from, to State) []PodLifeCycleEventType {
	switch to {
	case StateRunning:
		return []PodLifeCycleEventType{ContainerStarted}
	case StateExited:
		return []PodLifeCycleEventType{ContainerDied}
	case StateCreated, StateUnknown:
		return []PodLifeCycleEventType{ContainerChanged}
	}
	if from == StateExited {
		return []PodLifeCycleEventType{ContainerRemoved} // that it died has been told
	}
	return []PodLifeCycleEventType{ContainerDied, ContainerRemoved}
}

// eventStates are the states that events of the runtime lead to.
var eventStates = map[RuntimeEventType]State{
	EventCreated: StateCreated, EventStarted: StateRunning, EventStopped: StateExited, EventDeleted: StateNone,
}

// take takes an event of the runtime, and returns the events that it makes. It is
// false where the event does not say enough, and a list has to.
//
// What the runtime shows of the pod with it may be of a later time: so it is asked for
// names and exit codes alone, and the other containers have events of their own.
func (r *records) take(e RuntimeEvent, now time.Time) (events []*PodLifecycleEvent, enough bool) {
	to := eventStates[e.Type]
	if _, gone := r.gone[e.ContainerID]; gone {
		return nil, true
	}
	uid, owned := r.owner[e.ContainerID]
	c := Container{ID: e.ContainerID}
	from := StateNone
	if owned {
		c = r.pods[uid].containers[c.ID].Container
		from = c.State
	}
	shown := false
	if e.Pod != nil {
		if i := slices.IndexFunc(e.Pod.Containers, func(c Container) bool { return c.ID == e.ContainerID }); i >= 0 {
			uid, c, shown = e.Pod.UID, e.Pod.Containers[i], true
		}
	}
	switch {
	case to == StateNone && !owned:
		r.gone[e.ContainerID] = now // a list that is not taken yet may have it
		return nil, true
	case to != StateNone && late(from, to), from == to:
		return nil, true
	case to == StateExited && !c.Sandbox && c.ExitCode == nil, !owned && !shown:
		return nil, false
	}
	if to != StateExited && to != StateNone {
		c.ExitCode = nil
	}
	return r.apply(uid, e.Pod, []change{{container: c, from: from, to: to}}, now), true
}

// starting tells whether a container that was created of late does not run yet.
func (r *records) starting(now time.Time) bool {
	for _, rec := range r.pods {
		for _, k := range rec.containers {
			if k.State == StateCreated && now.Sub(k.since) < startingAge {
				return true
			}
		}
	}
	return false
}

// forget drops what is remembered of containers that are long gone.
func (r *records) forget(now time.Time) {
	for id, at := range r.gone {
		if now.Sub(at) > tombstoneAge {
			delete(r.gone, id)
		}
	}
}

// snapshot returns the pods by UID.
func (r *records) snapshot() []*Pod {
	pods := make([]*Pod, 0, len(r.pods))
	for _, rec := range r.pods {
		p := &Pod{UID: rec.uid, Namespace: rec.namespace, Name: rec.name, Containers: make([]Container, 0, len(rec.containers))}
		for _, k := range rec.containers {
			p.Containers = append(p.Containers, k.Container)
		}
		slices.SortFunc(p.Containers, func(a, b Container) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}
