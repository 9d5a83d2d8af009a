package events

import (
	"context"
	"strings"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/printable"
)

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
