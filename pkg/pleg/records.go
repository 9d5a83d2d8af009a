package pleg

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// tombstoneAge is how long the ID of a removed container is kept at least, so that a late event does not add it again.
	tombstoneAge = 10 * time.Minute
	// forgetPeriod is the time between two calls of forget.
	forgetPeriod = 10 * time.Second
)

// records has the known state of the pods of the runtime. A change of a record emits an
// event.
type records struct {
	pods map[types.UID]*record
	// owner has the pod of each container and sandbox, by ID.
	owner map[string]types.UID
	// gone has the removed containers by ID. One that never had a record has only the time of its removal.
	gone map[string]Found
	// ended has the IDs of the containers in gone, by the UID of their pod.
	ended map[types.UID][]string
	// awaited is for Await.
	awaited await.Keys[string]
	// followers get each change of a container.
	followers map[*func(Found)]bool
}

type record struct {
	uid             types.UID
	namespace, name string
	source          string
	since           time.Time // when its first container was reported
	containers      map[string]*known
}

type known struct {
	Container
	// since is when the container was first reported. changed is when its present state was first reported. The time of a
	// report is when the event arrived or the list was requested.
	since, changed time.Time
}

// started returns when the container started, as the runtime says, or was created. If the clock of the runtime can't be right,
// it is when the container was first reported.
func (k *known) started() time.Time {
	at := cmp.Or(k.StartedAt, k.CreatedAt)
	if at.Unix() <= 0 || at.After(k.changed) {
		return k.since
	}
	return at
}

// endTime returns when a container that was removed at some time had ended, as the runtime says. If it does not say so, or its
// clock can't be right, it is when it was removed.
func (c *Container) endTime(removed time.Time) time.Time {
	if c.FinishedAt.IsZero() || c.FinishedAt.Before(c.CreatedAt) || c.FinishedAt.After(removed) {
		return removed
	}
	return c.FinishedAt
}

func newRecords() *records {
	return &records{
		pods: make(map[types.UID]*record), owner: make(map[string]types.UID), gone: make(map[string]Found),
		ended: make(map[types.UID][]string), awaited: make(await.Keys[string]), followers: make(map[*func(Found)]bool),
	}
}

// change is a change of the state of a container.
type change struct {
	container Container
	from, to  State
}

// late reports whether a reported state is older than the recorded one. A container returns to an earlier state only from
// unknown.
func late(from, to State) bool { return from != StateUnknown && to < from }

// compare returns how a list changes a pod. listed is when the list was requested. What was recorded before that time does
// not count against the list: a container that it does not have is gone, one that was gone is back, and one that it shows in
// an earlier state is in that state. Runtimes restart with another state, and events can be wrong. Against what was recorded
// later, only a later state counts.
func (r *records) compare(uid types.UID, pod *Pod, listed time.Time) (changes []change) {
	rec := r.pods[uid]
	reported := make(map[string]bool)
	if pod != nil {
		for _, c := range pod.Containers {
			reported[c.ID] = true
			if gone, removed := r.gone[c.ID]; removed && !gone.removed.Before(listed) {
				continue
			}
			from := StateNone
			if rec != nil && rec.containers[c.ID] != nil {
				k := rec.containers[c.ID]
				if from = k.State; late(from, c.State) && !k.changed.Before(listed) {
					continue
				}
			}
			if from != c.State {
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

// sortChanges orders containers before sandboxes, as the kubelet does, and older ones first.
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

// apply applies the changes to the records, and returns their events. at is when the event arrived or the list was
// requested.
func (r *records) apply(uid types.UID, pod *Pod, changes []change, at time.Time) (events []*PodLifecycleEvent) {
	rec := r.pods[uid]
	if len(changes) > 0 {
		defer r.awaited.Wake(string(uid))
	} else if rec == nil {
		return nil
	}
	if rec == nil {
		rec = &record{uid: uid, since: at, containers: make(map[string]*known)}
		r.pods[uid] = rec
	}
	if pod != nil {
		rec.namespace, rec.name, rec.source = pod.Namespace, pod.Name, cmp.Or(pod.Source, rec.source)
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
		before := rec.containers[id]
		if c.to == StateNone {
			delete(rec.containers, id)
			if k := before; r.owner[id] == uid { // otherwise another pod has the ID by now
				delete(r.owner, id)
				c.container.FinishedAt = c.container.endTime(at)
				removed := Found{
					UID: uid, Namespace: rec.namespace, Name: rec.name, Container: c.container,
					Started: k.started(), Ended: c.container.FinishedAt, removed: at,
				}
				r.follow(r.addRemoved(removed))
			}
			continue
		}
		k := &known{Container: c.container, since: at, changed: at}
		k.State = c.to
		if before != nil {
			k.since, k.StartedAt = before.since, cmp.Or(k.StartedAt, before.StartedAt)
		}
		rec.containers[id] = k
		r.owner[id] = uid
		delete(r.gone, id)
		r.awaited.Wake(id)
		r.follow(rec.container(k))
	}
	if len(rec.containers) == 0 {
		delete(r.pods, uid)
	}
	return events
}

// eventsOf returns the event types for a change of state.
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
		return []PodLifeCycleEventType{ContainerRemoved} // ContainerDied was emitted before
	}
	return []PodLifeCycleEventType{ContainerDied, ContainerRemoved}
}

// eventStates maps events of the runtime to the new state of the container.
var eventStates = map[RuntimeEventType]State{
	EventCreated: StateCreated, EventStarted: StateRunning, EventStopped: StateExited, EventDeleted: StateNone,
}

// applyEvent applies an event of the runtime, and returns the events to emit. It returns false if the event has too little data
// and a list is necessary.
//
// The pod in the event can be of a later time than the event. So applyEvent uses only its names and its exit code. The other
// containers of the pod have their own events.
func (r *records) applyEvent(e RuntimeEvent, now time.Time) (events []*PodLifecycleEvent, enough bool) {
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
		r.gone[e.ContainerID] = Found{removed: now} // a pending list may still have it
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

// addRemoved adds a removed container, and returns it as it is found.
func (r *records) addRemoved(f Found) Found {
	if f.Container.State != StateUnknown {
		f.Container.State = StateExited
	}
	r.gone[f.Container.ID] = f
	if ids := r.ended[f.UID]; !slices.Contains(ids, f.Container.ID) {
		r.ended[f.UID] = append(ids, f.Container.ID)
	}
	return f
}

// last returns the removed container of a pod that ended last, of those that matches selects.
func (r *records) last(uid types.UID, matches func(*Container) bool) (last Found) {
	for _, id := range r.ended[uid] {
		if f := r.gone[id]; f.UID == uid && matches(&f.Container) && (last.UID == "" || !f.Ended.Before(last.Ended)) {
			last = f
		}
	}
	return last
}

// forget deletes the entries of containers and pods that were removed longer ago than the retention, and the oldest ones beyond the
// limit.
func (r *records) forget(now time.Time, retention time.Duration, most int) {
	from := now.Add(-max(retention, tombstoneAge))
	maps.DeleteFunc(r.gone, func(_ string, f Found) bool { return f.removed.Before(from) })
	if n := len(r.gone) - most; n > 0 {
		oldest := slices.SortedFunc(maps.Keys(r.gone), func(a, b string) int {
			// One list can remove many.
			f, g := r.gone[a], r.gone[b]
			return cmp.Or(f.removed.Compare(g.removed), f.Ended.Compare(g.Ended), cmp.Compare(a, b))
		})
		for _, id := range oldest[:n] {
			delete(r.gone, id)
		}
	}
	for uid, ids := range r.ended {
		if ids = slices.DeleteFunc(ids, func(id string) bool { return r.gone[id].UID != uid }); len(ids) == 0 {
			delete(r.ended, uid)
		} else {
			r.ended[uid] = ids
		}
	}
}

// follow tells the followers of a container that has changed.
func (r *records) follow(f Found) {
	for changed := range r.followers {
		(*changed)(f)
	}
}

// snapshot returns the pods, ordered by UID.
func (r *records) snapshot() []*Pod {
	pods := make([]*Pod, 0, len(r.pods))
	for _, rec := range r.pods {
		pods = append(pods, rec.pod())
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// pod returns the pod of a record, with the oldest container first.
func (rec *record) pod() *Pod {
	p := &Pod{UID: rec.uid, Namespace: rec.namespace, Name: rec.name, Source: rec.source, Containers: make([]Container, 0, len(rec.containers))}
	for _, k := range rec.containers {
		p.Containers = append(p.Containers, k.Container)
	}
	slices.SortFunc(p.Containers, func(a, b Container) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return p
}
