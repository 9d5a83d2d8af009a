package events

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/record"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
)

// Of the events about one condition, entryBurst are written at once, and then one each entryEvery.
//
// client-go: EventSourceObjectSpamFilter has this rate for all events of an object.
const (
	entryBurst = 10
	entryEvery = 5 * time.Minute
)

// key identifies a condition and the object of its events.
type key struct {
	subject
	on v1.ObjectReference
}

// entry is the state of the events about a condition.
type entry struct {
	// written is the last event that was written, or that the apiserver rejected for good. It is zero once the end
	// of the condition is handled.
	written report
	// next is the event that is due. It equals written if none is due. since is when it became due.
	next  report
	since time.Time
	// live means that the last look saw the condition.
	live  bool
	limit *rate.Limiter
	// retry is the wait after failures.
	retry await.Backoff
	// correlated is the event to send for next. It is nil before the first attempt.
	correlated *record.EventCorrelateResult
}

// due is an entry with an event to write.
type due struct {
	key
	*entry
}

// look compares the status with what was written. It returns the events that are due: those that failed less often first,
// about sources, then about manifests, the oldest first.
func (r *Writer) look(now time.Time) (all []due) {
	sources := r.opts.Sources()
	for _, e := range r.entries {
		e.live = false
	}
	var mirrors map[types.NamespacedName]*v1.Pod
	node := nodeRef(r.opts.Node)
	for _, c := range conditionsOf(sources, now) {
		r.want(key{c.subject, node}, c.report, now)
		if c.pod.Name == "" {
			continue
		}
		if mirrors == nil {
			mirrors = r.opts.MirrorPods()
		}
		if mirror := mirrors[c.pod]; mirror != nil {
			r.want(key{c.subject, mirrorRef(mirror)}, c.report, now)
		}
	}
	pending := 0
	for k, e := range r.entries {
		if !e.live {
			r.unwant(k, e, sources, &mirrors, now)
		}
		if e.next == e.written || e.next == (report{}) {
			e.retry = await.Backoff{}
			if !e.live && e.written == (report{}) && e.limit.TokensAt(now) >= entryBurst {
				delete(r.entries, k)
			}
			continue
		}
		pending++
		if e.limit.TokensAt(now) >= 1 {
			all = append(all, due{k, e})
		}
	}
	r.metrics.pending.Set(float64(pending))
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.retry.Wait, b.retry.Wait), cmp.Compare(a.rank(), b.rank()), a.since.Compare(b.since),
			cmp.Compare(a.source, b.source), cmp.Compare(a.kind, b.kind), cmp.Compare(a.path, b.path), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.name, b.name), cmp.Compare(a.on.Kind, b.on.Kind), cmp.Compare(a.on.UID, b.on.UID))
	})
	return all
}

// rank is 0 for sources and 1 for manifests.
func (s *subject) rank() int {
	if s.kind == manifest || s.kind == manifestsOmitted {
		return 1
	}
	return 0
}

// want notes that a condition exists. If two conditions have the same key, the first one counts.
func (r *Writer) want(k key, what report, now time.Time) {
	e := r.entries[k]
	switch {
	case e == nil:
		e = &entry{limit: rate.NewLimiter(rate.Every(entryEvery), entryBurst)}
		r.entries[k] = e
	case e.live:
		return
	}
	e.live = true
	e.set(what, now)
}

// unwant notes that a condition no longer exists. Its end has an event if its beginning had one and the object of the
// event still exists.
func (r *Writer) unwant(k key, e *entry, sources []v1alpha1.SourceStatus, mirrors *map[types.NamespacedName]*v1.Pod, now time.Time) {
	if e.written.eventType != v1.EventTypeWarning {
		e.written, e.next = report{}, report{}
		return
	}
	what, has := ended(&k.subject, sources)
	if has && k.on.Kind == "Pod" {
		if *mirrors == nil {
			*mirrors = r.opts.MirrorPods()
		}
		mirror := (*mirrors)[types.NamespacedName{Namespace: k.on.Namespace, Name: k.on.Name}]
		has = mirror != nil && mirrorRef(mirror) == k.on
	}
	if !has {
		e.written, e.next = report{}, report{}
		return
	}
	e.set(what, now)
}

func (e *entry) set(what report, now time.Time) {
	if e.next != what {
		e.next, e.since, e.correlated = what, now, nil
	}
}
