package sources

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
)

// Board has the status of a source. The source writes it, others read it.
type Board struct {
	degraded, lastSuccess prometheus.Gauge
	errors                *prometheus.CounterVec

	mu     sync.Mutex // guards the fields below; only Update's function is called under it
	status v1alpha1.SourceStatus
	log    changeLog
}

// changeBurst is the number of changes between failure and success that are logged at once.
// Further changes are logged at the rate of one each changeEvery.
const (
	changeBurst = 20
	changeEvery = time.Minute
	// maxErrors is the maximum number of different errors that are logged before a success.
	maxErrors = 16
)

// changeLog selects the changes that are logged. A source can alternate between failure and
// success at each attempt.
type changeLog struct {
	limiter *rate.Limiter
	// errors are those that were logged since the last success in the log. since is the start of the failure that the last
	// line reports.
	errors map[string]bool
	since  time.Time
	// unlogged counts the changes since the last line.
	unlogged int
}

// addAttempt adds the result of an attempt, which is an error text or empty for a success. It
// returns whether the result must be logged, and with which values.
func (l *changeLog) addAttempt(text string, changed bool, since time.Time) (log bool, values []any) {
	if changed {
		l.unlogged++
	}
	known := l.errors[text] || len(l.errors) >= maxErrors
	if text == "" {
		known = len(l.errors) == 0
	}
	if known || !l.limiter.Allow() {
		return false, nil
	}
	if text == "" {
		clear(l.errors)
		values = append(values, "after", time.Since(l.since).Round(time.Millisecond))
	}
	if n := l.unlogged - 1; n > 0 {
		values = append(values, "unlogged", n)
	}
	if text != "" {
		l.errors[text] = true
	}
	l.since, l.unlogged = since, 0
	return true, values
}

// NewBoard returns a board with that status. It registers the metrics that every source has, unless reg is nil. One is
// a gauge of the subsystem, which is 1 while the source is degraded.
func NewBoard(status v1alpha1.SourceStatus, reg prometheus.Registerer, subsystem, degraded string) *Board {
	in := metric.In(reg, "source")
	return &Board{
		status:      status,
		degraded:    metric.In(reg, subsystem).Gauge("degraded", degraded),
		lastSuccess: in.Gauge("last_success_timestamp_seconds", "Unix time at which the source was last read without an error. 0 before the first time."),
		errors:      in.CounterVec("errors_total", "Number of attempts to read the source that failed, by reason.", "reason"),
		log:         changeLog{errors: make(map[string]bool), limiter: rate.NewLimiter(rate.Every(changeEvery), changeBurst)},
	}
}

// Status returns a copy of the status.
func (b *Board) Status() v1alpha1.SourceStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := b.status
	status.File, status.HTTP, status.API = copyOf(status.File), copyOf(status.HTTP), copyOf(status.API)
	return status
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// Update changes the status. The function must replace slices and maps in it, not
// write to them.
func (b *Board) Update(change func(*v1alpha1.SourceStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// Failed records that the source can't be read. It logs the error with the message, unless it was logged since
// the last success. A very long error is cut. If there are many changes, only some are logged, and the next line has
// the number of the others.
func (b *Board) Failed(ctx context.Context, err error, message string, keysAndValues ...any) {
	b.degraded.Set(1)
	b.errors.WithLabelValues(string(ReasonOf(err))).Inc()
	text := ShortText(err.Error())
	if text != err.Error() {
		err = errors.New(text)
	}
	var logged bool
	var values []any
	b.Update(func(status *v1alpha1.SourceStatus) {
		if !status.Degraded {
			now := time.Now()
			status.Degraded, status.DegradedSince = true, &now
		}
		logged, values = b.log.addAttempt(text, status.LastError != text, *status.DegradedSince)
		status.LastError = text
	})
	if logged {
		klog.FromContext(ctx).Error(err, message, append(keysAndValues, values...)...)
	}
}

// Succeeded records that the source can be read. It logs the message if the log says that
// the source can't be read, with the limits of Failed.
func (b *Board) Succeeded(ctx context.Context, message string) {
	b.degraded.Set(0)
	b.WasRead()
	var logged bool
	var values []any
	b.Update(func(status *v1alpha1.SourceStatus) {
		logged, values = b.log.addAttempt("", status.Degraded, time.Time{})
		status.Degraded, status.DegradedSince, status.LastError = false, nil, ""
	})
	if logged {
		klog.FromContext(ctx).Info(message, values...)
	}
}

// Sent records that a set was sent.
func (b *Board) Sent() {
	now := time.Now()
	b.Update(func(status *v1alpha1.SourceStatus) { status.LastChange = &now })
}

// WasRead records that the source was read without an error.
func (b *Board) WasRead() { b.lastSuccess.SetToCurrentTime() }

// NewDecodeDuration registers the histogram of the time to decode a manifest unless reg is nil.
func NewDecodeDuration(reg prometheus.Registerer) prometheus.Observer {
	return metric.In(reg, "source").Histogram("decode_duration_seconds",
		"Time to decode, default and validate a manifest file, or the answer of a URL, in seconds.",
		[]float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1})
}
