package apiserver

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

const (
	// lastRetry is the longest wait after a failure, nodeRetry the wait while the
	// apiserver does not have the node, and maxRetryAfter the longest wait that an
	// apiserver may ask for.
	//
	// kubelet: nodeRetry is WaitForAPIServerSyncPeriod.
	lastRetry     = 10 * time.Second
	nodeRetry     = time.Second
	maxRetryAfter = time.Minute
	// lasting is how long a watch must last to end a series of failures.
	lasting = lastRetry
)

// retries returns the waits after failures: an eighth to a quarter of a second, doubled each time.
func retries(last time.Duration) wait.Backoff {
	return wait.Backoff{Duration: 125 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: last / 2}
}

// attempts spaces out the attempts to reach the apiserver. All requests for pods share one backoff. Each failure is
// counted, logged and shown in the status.
//
// A series of failures ends after a watch has lasted. A successful request does not end
// it: the next one can fail at once, for example if lists work and watches don't.
type attempts struct {
	board *board
	// last is the longest wait after a failure.
	last time.Duration

	mu      sync.Mutex // guards the fields below; the board's are locked under it
	backoff wait.Backoff
	next    time.Time // time of the next attempt
	// asking is why the last attempt failed. files is why the kubeconfig, or a file in
	// it, can't be used.
	asking, files error
	// silent means that a watch went silent, and that the watches after it had no events either.
	silent bool
}

func newAttempts(b *board, last time.Duration) *attempts {
	return &attempts{board: b, last: last, backoff: retries(last)}
}

// pause returns the wait until the next attempt.
func (a *attempts) pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Until(a.next)
}

// failed records that an attempt failed, or the watch that it started. retryAfter is the wait that the
// server asked for; 0 if none.
func (a *attempts) failed(ctx context.Context, err error, retryAfter time.Duration) {
	if ctx.Err() != nil {
		return
	}
	a.board.metrics.failures.Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = errors.Is(err, errSilent)
	in := a.backoff.Step()
	if _, ok := errors.AsType[unknownNodeError](err); ok {
		in = min(in, nodeRetry)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		retryAfter = max(retryAfter, time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second)
	}
	in = max(in, min(retryAfter, maxRetryAfter))
	a.next = time.Now().Add(in)
	a.asking = stable(err)
	a.show(ctx, "retryIn", in.Round(time.Millisecond))
}

// succeeded records that there is a watch, and whether it had an event (active).
func (a *attempts) succeeded(ctx context.Context, active bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = a.silent && !active
	if a.asking != nil && !a.silent {
		a.asking = nil
		a.show(ctx)
	}
}

// isSilent reports whether a watch went silent, and the watches after it had no events either.
func (a *attempts) isSilent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.silent
}

// calm ends the series of failures.
func (a *attempts) calm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.backoff, a.next = retries(a.last), time.Time{}
}

// read records whether the files can be used.
func (a *attempts) read(ctx context.Context, broken error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if broken != nil || a.files != nil {
		a.files = broken
		a.show(ctx)
	}
}

// show updates the board, which logs only some of the changes. The caller holds the lock.
func (a *attempts) show(ctx context.Context, keysAndValues ...any) {
	err := a.files
	if err == nil {
		err = a.asking
	}
	if err == nil {
		a.board.Succeeded(ctx, "Requests to the apiserver succeed again")
	} else {
		a.board.Failed(ctx, err, "A request to the apiserver failed, keeping what it answered before", keysAndValues...)
	}
}

// unstable is the part of an error's text that differs between attempts: ports, and the query of a URL.
var unstable = regexp.MustCompile(`\S+:\d+->|\?[^\s"\\]+`)

// stable returns the error with a text that does not depend on the attempt.
func stable(err error) error {
	if text := unstable.ReplaceAllString(err.Error(), ""); text != err.Error() {
		return sources.Because(sources.ReasonOf(err), errors.New(text))
	}
	return err
}

// subsystem is part of the names of the metrics.
const subsystem = "api_source"

// board has the status and the metrics that belong to it.
type board struct {
	*sources.Board
	metrics *metrics
	// watched means that there was a watch. Only update's function reads and writes it.
	watched bool
}

func newBoard(reg prometheus.Registerer) *board {
	return &board{metrics: newMetrics(reg), Board: sources.NewBoard(v1alpha1.SourceStatus{
		Name: config.ApiserverSource, API: &v1alpha1.APIStatus{},
	}, reg, subsystem, "1 if requests to the apiserver fail. The last pods stay.")}
}

// update changes the part of the status that only the apiserver source has.
func (b *board) update(change func(*v1alpha1.APIStatus)) {
	b.Update(func(status *v1alpha1.SourceStatus) { change(status.API) })
}

// listed records that a list is complete.
func (b *board) listed() {
	now := time.Now()
	b.WasRead()
	b.update(func(status *v1alpha1.APIStatus) {
		if status.LastList != nil {
			status.Relists++
		}
		status.LastList = &now
	})
}

// watching records that a watch started. That proves nothing about the pods.
func (b *board) watching() {
	b.metrics.connected.Set(1)
	b.update(func(status *v1alpha1.APIStatus) {
		status.Connected = true
		if b.watched {
			status.WatchRestarts++
		}
		b.watched = true
	})
}

// watchEnded records that there is no watch.
func (b *board) watchEnded() {
	b.metrics.connected.Set(0)
	b.update(func(status *v1alpha1.APIStatus) { status.Connected = false })
}

// event records an event of a watch.
func (b *board) event() {
	now := time.Now()
	b.WasRead()
	b.update(func(status *v1alpha1.APIStatus) { status.LastEvent = &now })
}

type metrics struct {
	failures  prometheus.Counter
	connected prometheus.Gauge
}

// newMetrics registers the source's metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, subsystem)
	return &metrics{
		failures:  in.Counter("failures_total", "Failed requests to the apiserver."),
		connected: in.Gauge("connected", "1 while there is a watch."),
	}
}
