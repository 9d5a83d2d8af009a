package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
	// KnownAfterEnd is how long FindContainer and FindPod find what the runtime has removed. maxEnded limits the number
	// of removed containers.
	KnownAfterEnd = time.Minute
	maxEnded      = 16384
	// minDemandPause is the minimum time between two lists that Await causes. The pause is also
	// demandShare times as long as a list takes: a slow runtime spends at most a tenth of its time on lists.
	minDemandPause = 50 * time.Millisecond
	demandShare    = 10
)

// Found is a container or sandbox with its pod.
type Found struct {
	UID             types.UID
	Namespace, Name string
	// Since is the time at which the pod was first recorded.
	Since time.Time
	// Container is the container. FindPod does not set it.
	Container Container
	// Started is when the container started. FindPod does not set it.
	Started time.Time
	// Ended is when a removed container had ended, or for FindPod its last container; zero if the runtime has it.
	Ended time.Time
	// removed is when it was observed that the runtime removed it.
	removed time.Time
}

// FindContainer returns the container or sandbox with that ID.
func (g *Generator) FindContainer(id string) (Found, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records
	if uid, owned := r.owner[id]; owned {
		found := r.pods[uid].found()
		found.Container, found.Started = r.pods[uid].containers[id].Container, r.pods[uid].containers[id].started()
		return found, true
	}
	ended, known := r.ended.containers[id]
	return ended, known && time.Since(ended.removed) <= KnownAfterEnd
}

// FindPod returns the pod with that UID.
func (g *Generator) FindPod(uid types.UID) (Found, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rec := g.records.pods[uid]; rec != nil {
		return rec.found(), true
	}
	last, known := g.records.ended.pods[uid]
	return last, known && time.Since(last.removed) <= KnownAfterEnd
}

// Behind returns why the records may lack something that the runtime had at the time; nil if they are complete. With a zero
// time, it is enough that the runtime answers and was listed once.
func (g *Generator) Behind(at time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.behind(at)
}

// Await returns a channel that is closed when a container, a sandbox or a pod with one of the IDs is recorded. The runtime is
// listed at once, or as soon as demandPause allows. The caller must call stop.
func (g *Generator) Await(ids ...string) (recorded <-chan struct{}, stop func()) {
	w := make(chan struct{})
	g.mu.Lock()
	for _, id := range ids {
		g.records.awaited[id] = append(g.records.awaited[id], w)
	}
	g.mu.Unlock()
	await.Signal(g.demands) // unless a list is demanded already
	return w, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.records.awaited.leave(w, ids)
	}
}

// demanded lists the runtime for Await.
func (g *Generator) demanded(ctx context.Context) {
	g.demand = true
	if g.relisting {
		return // schedule sets the timer
	}
	wait := g.demandPause()
	if wait <= 0 {
		g.due(ctx)
		return
	}
	g.timer.Reset(wait)
}

// demandPause returns the time until a list may be demanded.
func (g *Generator) demandPause() time.Duration {
	pause := g.opts.RelistPeriod
	if g.state.LastError == "" {
		pause = min(pause, max(minDemandPause, demandShare*g.listTook))
	}
	return time.Until(g.listEnded.Add(pause))
}

// found returns the pod of a record.
func (rec *record) found() Found {
	f := Found{UID: rec.uid, Namespace: rec.namespace, Name: rec.name}
	for _, k := range rec.containers {
		if f.Since.IsZero() || k.since.Before(f.Since) {
			f.Since = k.since
		}
	}
	return f
}

// awaited has the channels of Await by ID.
type awaited map[string][]chan struct{}

// recorded closes the channels of an ID.
func (a awaited) recorded(id string) {
	for _, w := range a[id] {
		select {
		case <-w: // another ID of the same call was recorded
		default:
			close(w)
		}
	}
	delete(a, id)
}

// leave removes the channel of IDs.
func (a awaited) leave(w chan struct{}, ids []string) {
	for _, id := range ids {
		kept := a[id][:0]
		for _, other := range a[id] {
			if other != w {
				kept = append(kept, other)
			}
		}
		if a[id] = kept; len(kept) == 0 {
			delete(a, id)
		}
	}
}

// ended has the containers that were removed in the last KnownAfterEnd.
type ended struct {
	containers map[string]Found
	// pods has the pod of each, as of the container that was removed last.
	pods  map[types.UID]Found
	order []string
}

// add adds a removed container.
func (e *ended) add(f Found) {
	if e.containers == nil {
		e.containers, e.pods = make(map[string]Found), make(map[types.UID]Found)
	}
	if f.Container.State != StateExited && f.Container.State != StateUnknown {
		f.Container.State = StateExited
	}
	e.containers[f.Container.ID] = f
	e.order = append(e.order, f.Container.ID)
	pod := f
	pod.Container, pod.Started = Container{}, time.Time{}
	if last := e.pods[f.UID].Ended; last.After(pod.Ended) {
		pod.Ended = last
	}
	e.pods[f.UID] = pod
	e.forget(f.removed)
}

// forget forgets containers after KnownAfterEnd, and the oldest ones beyond the limit.
func (e *ended) forget(now time.Time) {
	n := 0
	for n < len(e.order) && (len(e.order)-n > maxEnded || now.Sub(e.containers[e.order[n]].removed) > KnownAfterEnd) {
		f := e.containers[e.order[n]]
		if delete(e.containers, e.order[n]); !e.pods[f.UID].removed.After(f.removed) {
			delete(e.pods, f.UID)
		}
		n++
	}
	if e.order = e.order[n:]; len(e.order) == 0 {
		e.order = nil
	}
}
