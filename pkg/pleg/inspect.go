package pleg

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// inspection is a pod of a list that was requested at the time listed.
type inspection struct {
	uid    types.UID
	pod    *Pod // nil if the pod is gone
	listed time.Time
}

// reconcile updates the record of a pod from a list, and emits the changes. If a change needs an exit code, another
// goroutine requests it first. Until it has the code, the record does not change. If more lists come, the newest one waits. If
// the request fails, the record has the other containers of the pod nevertheless.
//
// kubelet: pkg/kubelet/pleg/generic.go reconcilePodRecord.
func (g *Generator) reconcile(ctx context.Context, i inspection) {
	if !g.inspecting[i.uid].IsZero() {
		g.later[i.uid] = i
		return
	}
	changes := g.records.compare(i.uid, i.pod, i.listed)
	if len(changes) == 0 && g.reinspect[i.uid].IsZero() {
		delete(g.unread, i.uid)
		return
	}
	ids := exits(changes)
	if len(ids) == 0 {
		g.conclude(i, changes, false)
		return
	}
	g.inspecting[i.uid] = time.Now()
	g.group.Go(func() { g.inspect(ctx, i, ids) })
}

// exits returns the IDs of the exited containers whose exit code is not known.
func exits(changes []change) (ids []string) {
	for _, c := range changes {
		if unreadExit(c) {
			ids = append(ids, c.container.ID)
		}
	}
	return ids
}

// unreadExit reports whether a change is the exit of a container whose exit code is not known.
func unreadExit(c change) bool {
	return c.to == StateExited && !c.container.Sandbox && c.container.ExitCode == nil
}

// inspect requests the exit codes of containers of one pod. At most maxInspections do so at a time.
func (g *Generator) inspect(ctx context.Context, i inspection, ids []string) {
	select {
	case <-ctx.Done():
		return
	case g.inspections <- struct{}{}:
		defer func() { <-g.inspections }()
	}
	g.mu.Lock()
	timeout := g.opts.CallTimeout
	g.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found := make(map[string]*Exit, len(ids))
	var err error
	for _, id := range ids {
		if found[id], err = g.opts.Runtime.Exit(call, id); err != nil {
			break
		}
	}
	g.do(ctx, func() { g.inspected(ctx, i, found, err) })
}

// inspected handles the result of an inspection.
func (g *Generator) inspected(ctx context.Context, i inspection, found map[string]*Exit, err error) {
	begin := g.inspecting[i.uid]
	delete(g.inspecting, i.uid)
	later, relisted := g.later[i.uid]
	delete(g.later, i.uid)
	if err != nil {
		if g.reinspect[i.uid].IsZero() {
			g.reinspect[i.uid] = begin // again at the next list
			pod := klog.KRef(i.pod.Namespace, i.pod.Name)
			g.note(func(logger klog.Logger) {
				logger.Error(err, "Failed to inspect a pod, retrying at each list; further failures are only counted", "pod", pod, "podUID", i.uid)
			})
		}
		g.metrics.inspectErrors.Inc()
		if relisted {
			i = later
		}
		changes := slices.DeleteFunc(g.records.compare(i.uid, i.pod, i.listed), unreadExit)
		g.expect(changes, i.listed)
		g.emit(g.records.apply(i.uid, i.pod, changes, i.listed))
	} else {
		for n := range i.pod.Containers {
			c := &i.pod.Containers[n]
			if exit := found[c.ID]; exit != nil {
				c.ExitCode, c.StartedAt, c.FinishedAt = &exit.Code, exit.StartedAt, exit.FinishedAt
			}
		}
		g.conclude(i, g.records.compare(i.uid, i.pod, i.listed), relisted) // events may have changed the record
		if relisted {
			g.reconcile(ctx, later)
		}
	}
}

// conclude applies the changes and emits their events. If an earlier inspection of the pod failed and nothing changed, it
// emits a PodSync. relisted means that the caller reconciles a later list of the pod next.
func (g *Generator) conclude(i inspection, changes []change, relisted bool) {
	g.expect(changes, i.listed)
	events := g.records.apply(i.uid, i.pod, changes, i.listed)
	if !relisted || g.records.pods[i.uid] != nil {
		delete(g.unread, i.uid)
	}
	if !g.reinspect[i.uid].IsZero() && i.pod != nil {
		if len(events) == 0 {
			events = []*PodLifecycleEvent{{ID: i.uid, Type: PodSync, Namespace: i.pod.Namespace, Name: i.pod.Name}}
		}
		pod := klog.KRef(i.pod.Namespace, i.pod.Name)
		g.note(func(logger klog.Logger) { logger.Info("The pod is inspected again", "pod", pod, "podUID", i.uid) })
	}
	delete(g.reinspect, i.uid)
	g.emit(events)
}

// Uninspected returns the pods whose exit codes can't be read, and since when: an inspection failed, or takes longer than
// UninspectedAfter.
func (g *Generator) Uninspected() map[types.UID]time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	since := maps.Clone(g.reinspect)
	for uid, begin := range g.inspecting {
		if _, failed := since[uid]; !failed && time.Since(begin) > UninspectedAfter {
			since[uid] = begin
		}
	}
	return since
}
