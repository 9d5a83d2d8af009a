package events

import (
	"context"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"golang.org/x/time/rate"
)

// The waits after failures grow from firstRetry to lastRetry. The apiserver can ask for a wait of at most lastRetry.
// While events in a namespace are forbidden, the waits grow to lastDenied.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	lastDenied = 5 * time.Minute
	// logBurst is the number of lines that are logged at once, logEvery the interval of further lines. A series of
	// failures has a line at its first failure and a line at its end.
	logBurst = 10
	logEvery = time.Minute
)

// failures has the series of failures that have not ended. The key is the namespace if the apiserver rejects the events
// of one namespace. Otherwise it is empty, and the series concerns all events.
type failures struct {
	series map[string]*series
	lines  *rate.Limiter
}

type series struct {
	next   time.Time
	wait   time.Duration
	logged bool
}

func newFailures() failures {
	return failures{series: make(map[string]*series), lines: rate.NewLimiter(rate.Every(logEvery), logBurst)}
}

// waiting reports whether the events of a namespace have to wait. With an empty name, it reports whether all have to.
func (f *failures) waiting(namespace string, now time.Time) bool {
	s := f.series[namespace]
	return s != nil && now.Before(s.next)
}

// add notes a failure, and logs the first of a series.
func (f *failures) add(ctx context.Context, namespace string, err error, now time.Time) {
	name, last := "", lastRetry
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		name, last = namespace, lastDenied
	}
	s := f.series[name]
	if s == nil {
		s = &series{wait: firstRetry}
		f.series[name] = s
		s.logged = f.log(ctx, err, "Could not write an event to the apiserver, trying again later without a further message", namespace)
	}
	in := wait.Jitter(s.wait, 0.5)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		in = max(in, min(time.Duration(min(seconds, math.MaxInt32))*time.Second, lastRetry))
	}
	s.next, s.wait = now.Add(in), min(2*s.wait, last)
}

// log logs a failure unless too many were logged. It reports whether it has logged.
func (f *failures) log(ctx context.Context, err error, message, namespace string) bool {
	if !f.lines.Allow() {
		return false
	}
	klog.FromContext(ctx).Error(err, message, "namespace", namespace)
	return true
}

// end notes that an event of a namespace was written.
func (f *failures) end(ctx context.Context, namespace string) {
	for _, name := range []string{"", namespace} {
		if s := f.series[name]; s != nil && s.logged {
			klog.FromContext(ctx).Info("Events can be written to the apiserver again", "namespace", namespace)
		}
		delete(f.series, name)
	}
}
