package journal

import (
	"cmp"
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Status fills in what the journal knows: revisions, readiness, pods, sources and
// subscribers.
func (j *Journal) Status() v1alpha1.Status {
	j.mu.RLock()
	defer j.mu.RUnlock()
	status := v1alpha1.Status{
		Instance: j.instance, Revision: j.head, Compacted: j.compacted,
		Ready: j.readyLocked(), Pods: len(j.state),
		Sources:     make([]v1alpha1.SourceStatus, 0, len(j.sources)),
		Subscribers: make([]v1alpha1.Subscriber, 0, len(j.cursors)),
	}
	pods := make(map[string]int)
	for key := range j.state {
		pods[key.source]++
	}
	for name, s := range j.sources {
		status.Sources = append(status.Sources, v1alpha1.SourceStatus{Name: name, Seen: s.Seen, Pods: pods[name]})
	}
	slices.SortFunc(status.Sources, func(a, b v1alpha1.SourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	for c := range j.cursors {
		position := c.position.Load()
		status.Subscribers = append(status.Subscribers, v1alpha1.Subscriber{
			ID: c.id, Mode: string(c.opts.Mode), Since: c.opened, Resets: int(c.resets.Load()),
			PID: c.opts.Reader.PID, UID: c.opts.Reader.UID, UserAgent: c.opts.Reader.UserAgent,
			Revision: position, Lag: j.head - position,
		})
	}
	slices.SortFunc(status.Subscribers, func(a, b v1alpha1.Subscriber) int { return cmp.Compare(a.ID, b.ID) })
	return status
}
