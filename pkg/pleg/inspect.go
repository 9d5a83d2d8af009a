package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// inspection is what a list has of a pod, and what is to be asked besides.
type inspection struct {
	uid    types.UID
	pod    *Pod // nil: it is gone
	listed time.Time
}

// reconcile brings the record of a pod up to the list, and tells what changed. Where
// that takes an exit code, the runtime is asked for it first, by another goroutine;
// until then the record stays as it is, and of further lists the newest one waits.
//
// kubelet: pkg/kubelet/pleg/generic.go reconcilePodRecord.
func (g *Generator) reconcile(ctx context.Context, i inspection) {
	if g.inspecting[i.uid] {
		g.later[i.uid] = i // there may be no other list for minutes
		return
	}
	g.mu.Lock()
	changes := g.records.compare(i.uid, i.pod, i.listed)
	g.mu.Unlock()
	if len(changes) == 0 && !g.reinspect[i.uid] {
		return
	}
	if len(exits(changes)) == 0 {
		g.conclude(ctx, i, changes)
		return
	}
	g.inspecting[i.uid] = true
	if len(g.inspecting)-len(g.waiting) > maxInspections {
		g.waiting = append(g.waiting, i)
		return
	}
	g.inspect(ctx, i, exits(changes))
}

// exits returns the containers that exited with a code that is not known.
func exits(changes []change) (ids []string) {
	for _, c := range changes {
		if c.to == StateExited && !c.container.Sandbox && c.container.ExitCode == nil {
			ids = append(ids, c.container.ID)
		}
	}
	return ids
}

// inspect asks the runtime for the exit codes of a pod's containers.
func (g *Generator) inspect(ctx context.Context, i inspection, ids []string) {
	g.group.Go(func() {
		call, cancel := context.WithTimeout(ctx, g.opts.CallTimeout)
		defer cancel()
		codes := make(map[string]*int32, len(ids))
		var err error
		for _, id := range ids {
			if codes[id], err = g.opts.Runtime.ExitCode(call, id); err != nil {
				break
			}
		}
		g.post(ctx, func(ctx context.Context) { g.inspected(ctx, i, codes, err) })
	})
}

// inspected takes what an inspection found, and begins another that waits.
func (g *Generator) inspected(ctx context.Context, i inspection, codes map[string]*int32, err error) {
	delete(g.inspecting, i.uid)
	later, relisted := g.later[i.uid]
	delete(g.later, i.uid)
	if err != nil {
		g.reinspect[i.uid] = true // when it is listed next
		g.relistAfter(g.opts.RelistPeriod)
		g.metrics.inspectErrors.Inc()
		klog.FromContext(ctx).Error(err, "Inspecting a pod failed; it is tried again at the next list",
			"pod", klog.KRef(i.pod.Namespace, i.pod.Name), "podUID", i.uid)
	} else {
		for n := range i.pod.Containers {
			if code := codes[i.pod.Containers[n].ID]; code != nil {
				i.pod.Containers[n].ExitCode = code
			}
		}
		g.mu.Lock()
		changes := g.records.compare(i.uid, i.pod, i.listed) // events may have changed it meanwhile
		g.mu.Unlock()
		g.conclude(ctx, i, changes)
		if relisted {
			g.reconcile(ctx, later)
		}
	}
	for len(g.waiting) > 0 && len(g.inspecting)-len(g.waiting) < maxInspections {
		next := g.waiting[0]
		g.waiting = g.waiting[1:]
		delete(g.inspecting, next.uid)
		if later, relisted := g.later[next.uid]; relisted {
			next = later
			delete(g.later, next.uid)
		}
		g.reconcile(ctx, next)
	}
}

// conclude applies the changes, and tells of a PodSync where a pod that could not be
// inspected turns out not to have changed.
func (g *Generator) conclude(ctx context.Context, i inspection, changes []change) {
	g.mu.Lock()
	events := g.records.apply(i.uid, i.pod, changes, i.listed)
	g.mu.Unlock()
	if len(events) == 0 && g.reinspect[i.uid] && i.pod != nil {
		events = []*PodLifecycleEvent{{ID: i.uid, Type: PodSync, Namespace: i.pod.Namespace, Name: i.pod.Name}}
	}
	delete(g.reinspect, i.uid)
	g.emit(ctx, events)
}
