package events

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/printable"
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

const (
	// component is the source of the events.
	component = "podconfigd"
	// maxMessage is the maximum length of a message in bytes. It is the limit of the note in events.k8s.io/v1.
	maxMessage = 1024
)

// nodeRef returns the reference to the Node. Its UID is the name of the Node: "kubectl describe node" looks for that too.
func nodeRef(node types.NodeName) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(node), UID: types.UID(node)}
}

// mirrorRef returns the reference to a mirror pod. Its UID is that of the static pod: "kubectl describe pod" looks for
// the UID in the annotation of a mirror pod.
func mirrorRef(mirror *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: mirror.Namespace, Name: mirror.Name,
		UID: types.UID(mirror.Annotations[v1.MirrorPodAnnotationKey]),
	}
}

// newEvent returns an event with a new name.
//
// client-go: makeEvent in tools/record/event.go.
func (r *Writer) newEvent(on *v1.ObjectReference, what report, at time.Time) *v1.Event {
	r.serial = max(r.serial+1, time.Now().UnixNano())
	node := string(r.opts.Node)
	return &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: util.GenerateEventName(on.Name, r.serial), Namespace: namespaceOf(on)},
		InvolvedObject: *on,
		Type:           what.eventType, Reason: what.reason, Message: shorten(what.message),
		Source:              v1.EventSource{Component: component, Host: node},
		ReportingController: component, ReportingInstance: node,
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Count: 1,
	}
}

// namespaceOf returns the namespace of events on an object.
func namespaceOf(on *v1.ObjectReference) string {
	if on.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return on.Namespace
}

// shorten cuts a message that is too long.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(printable.Cut(message, maxMessage-len("…")), "�")
}

// lastRetry is the longest wait after failures, lastDenied that while events in a namespace are forbidden.
const (
	lastRetry  = time.Minute
	lastDenied = 5 * time.Minute
	// logBurst is the number of lines that are logged at once, logEvery the interval of further lines. A series of
	// failures has a line at its first failure and a line at its end.
	logBurst = 10
	logEvery = time.Minute
)

// failures has the series of failures that have not ended. The key is the namespace if the apiserver rejects the events
// of one namespace. Otherwise it is empty, and the series concerns all events.
//
// A series delays other events only if two events fail. An event that fails again and again, for example because of a
// webhook or a missing permission, delays no other one.
type failures struct {
	series map[string]*series
	lines  *rate.Limiter
}

type series struct {
	await.Backoff
	logged bool
	// last is the event that failed last.
	last key
}

func newFailures() failures {
	return failures{series: make(map[string]*series), lines: rate.NewLimiter(rate.Every(logEvery), logBurst)}
}

// waiting reports whether the events of a namespace have to wait. With an empty name, it reports whether all have to.
func (f *failures) waiting(namespace string, now time.Time) bool {
	s := f.series[namespace]
	return s != nil && s.Waits(now)
}

// addFailure notes a failure, and logs the first of a series.
func (f *failures) addFailure(ctx context.Context, d due, err error, now time.Time) {
	namespace := namespaceOf(&d.on)
	name, waits := "", wait.Backoff{Duration: time.Second, Cap: lastRetry, Jitter: 0.5}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		name, waits.Cap = namespace, lastDenied
	}
	d.retry.Failed(now, waits, err)
	s := f.series[name]
	if s == nil {
		s = &series{}
		f.series[name] = s
		s.logged = f.log(ctx, err, "Could not write an event to the apiserver, trying again later without a further message", namespace)
	}
	if s.last != d.key { // two events fail
		s.Failed(now, waits, err)
	}
	s.last = d.key
}

// log logs a failure unless too many were logged. It reports whether it has logged.
func (f *failures) log(ctx context.Context, err error, message, namespace string) bool {
	if !f.lines.Allow() {
		return false
	}
	klog.FromContext(ctx).Error(err, message, "namespace", namespace)
	return true
}

// endSeries notes that an event was written. A series goes on while its last event still fails.
func (f *failures) endSeries(ctx context.Context, written due, entries map[key]*entry) {
	namespace := namespaceOf(&written.on)
	for _, name := range []string{"", namespace} {
		s := f.series[name]
		if s == nil {
			continue
		}
		s.Backoff = await.Backoff{}
		if e := entries[s.last]; s.last != written.key && e != nil && e.retry.Wait > 0 {
			continue
		}
		if s.logged {
			klog.FromContext(ctx).Info("Events can be written to the apiserver again", "namespace", namespace)
		}
		delete(f.series, name)
	}
}
