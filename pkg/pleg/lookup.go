package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
)

const (
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
	// Container is the container. If it has ended, FinishedAt is set. FindPod does not set it.
	Container Container
	// Started is when the container started. FindPod does not set it.
	Started time.Time
	// Ended is when a removed container had ended, or for FindPod its last container; zero if the runtime has it.
	Ended time.Time
	// removed is when it was observed that the runtime removed it.
	removed time.Time
}

// recent returns what the runtime has removed, for as long as it is kept.
func (g *Generator) recent(f Found) (Found, bool) {
	return f, f.UID != "" && time.Since(f.removed) <= g.opts.Retention
}

// FindContainer returns the container or sandbox with that ID.
func (g *Generator) FindContainer(id string) (Found, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records
	if uid, owned := r.owner[id]; owned {
		rec := r.pods[uid]
		return rec.container(rec.containers[id]), true
	}
	return g.recent(r.gone[id])
}

// FindPod returns the pod with that UID.
func (g *Generator) FindPod(uid types.UID) (Found, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rec := g.records.pods[uid]; rec != nil {
		return rec.found(), true
	}
	last := g.records.last(uid, func(*Container) bool { return true })
	last.Container, last.Started = Container{}, time.Time{}
	return g.recent(last)
}

// FindRemoved returns the container of a pod that the runtime has removed, by its name and attempt.
func (g *Generator) FindRemoved(uid types.UID, name string, attempt uint32) (Found, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.recent(g.records.last(uid, func(c *Container) bool { return !c.Sandbox && c.Name == name && c.Attempt == attempt }))
}

// Behind returns why the records may lack something that the runtime had at the time; nil if they are complete. With a zero
// time, it is enough that the runtime answers and was listed once.
func (g *Generator) Behind(at time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.behind(at)
}

// Follow calls changed with each change of a container or sandbox from now on, in their order, until stop is called. A removed one
// has the time at which it ended. It returns the present ones, ordered by pod and creation. changed is called with a lock of the
// generator: it must not block, or call the generator.
func (g *Generator) Follow(changed func(Found)) (present []Found, stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, pod := range g.records.snapshot() {
		rec := g.records.pods[pod.UID]
		for i := range pod.Containers {
			if id := pod.Containers[i].ID; g.records.owner[id] == pod.UID { // otherwise another pod has the ID by now
				present = append(present, rec.container(rec.containers[id]))
			}
		}
	}
	g.records.followers[&changed] = true
	return present, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.records.followers, &changed)
	}
}

// Await returns a channel that is closed when a container or a sandbox with one of the IDs is recorded, or a container of a pod
// with one of them changes. The runtime is listed at once, or as soon as demandPause allows. The caller must call stop.
func (g *Generator) Await(ids ...string) (recorded <-chan struct{}, stop func()) {
	g.mu.Lock()
	w := g.records.awaited.Add(ids...)
	g.mu.Unlock()
	await.Signal(g.demands) // unless a list is demanded already
	return w, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.records.awaited.Remove(w, ids...)
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

// container returns a container of a record.
func (rec *record) container(k *known) Found {
	f := rec.found()
	f.Container, f.Started = k.Container, k.started()
	if k.State == StateExited {
		f.Container.FinishedAt = k.endTime(k.changed)
	}
	return f
}

// found returns the pod of a record.
func (rec *record) found() Found {
	return Found{UID: rec.uid, Namespace: rec.namespace, Name: rec.name, Since: rec.since}
}
