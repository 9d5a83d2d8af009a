package apiserver

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

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
	// loggedErrors is the maximum number of different errors that are logged in a series.
	loggedErrors = 16
)

// retries are the waits after failures: an eighth to a quarter of a second, doubled each
// time.
var retries = wait.Backoff{Duration: 125 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: lastRetry / 2}

// gate is passed by every request. All requests share one backoff. The gate counts, logs
// and shows each failure.
//
// A series of failures ends after a watch has lasted. A successful request does not end
// it: the next one can fail at once, for example if lists work and watches don't.
type gate struct {
	board   *board
	metrics *metrics

	mu      sync.Mutex // guards the fields below; the board's are locked under it
	backoff wait.Backoff
	next    time.Time // time of the next attempt
	// asking is why the last attempt failed. files is why the kubeconfig, or a file in
	// it, can't be used.
	asking, files error
	// silent means that a watch went silent, and the next ones had no events either.
	silent bool
	// logged has the logged errors of this series. unresolved means that an error was
	// logged after the last logged success.
	logged     map[string]bool
	unresolved bool
}

func newGate(b *board, m *metrics) *gate {
	return &gate{board: b, metrics: m, backoff: retries, logged: make(map[string]bool)}
}

// pause returns the wait until the next attempt.
func (g *gate) pause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.next)
}

// failed records that an attempt, or the watch that it started, failed. The server may
// have asked for a wait.
func (g *gate) failed(ctx context.Context, err error, retryAfter time.Duration) {
	if ctx.Err() != nil {
		return
	}
	g.metrics.failures.Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = errors.Is(err, errSilent)
	in := g.backoff.Step()
	if _, ok := errors.AsType[unknownNodeError](err); ok {
		in = min(in, nodeRetry)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		retryAfter = max(retryAfter, time.Duration(min(seconds, int(maxRetryAfter/time.Second)))*time.Second)
	}
	in = max(in, min(retryAfter, maxRetryAfter))
	g.next = time.Now().Add(in)
	g.asking = stable(err)
	g.show(ctx, "retryIn", in.Round(time.Millisecond))
}

// succeeded records that there is a watch, and whether it had an event (active).
func (g *gate) succeeded(ctx context.Context, active bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = g.silent && !active
	if (g.asking != nil || g.unresolved && g.files == nil) && !g.silent {
		g.asking = nil
		g.show(ctx)
	}
}

// isSilent reports whether a watch went silent, and the next ones had no events either.
func (g *gate) isSilent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.silent
}

// calm ends the series of failures.
func (g *gate) calm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backoff, g.next = retries, time.Time{}
	clear(g.logged)
}

// read records whether the files can be used.
func (g *gate) read(ctx context.Context, broken error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if broken != nil || g.files != nil {
		g.files = broken
		g.show(ctx)
	}
}

// show updates the board. What the board does not log, because it has logged much, is logged
// by a later call. The caller holds the lock.
func (g *gate) show(ctx context.Context, keysAndValues ...any) {
	err := g.files
	if err == nil {
		err = g.asking
	}
	log := g.unresolved
	if err != nil {
		log = !g.logged[err.Error()] && len(g.logged) < loggedErrors
	}
	if !log {
		ctx = klog.NewContext(ctx, logr.Discard())
	}
	if err == nil {
		if g.board.Succeeded(ctx, "Requests to the apiserver succeed again") {
			g.unresolved = false
		}
		return
	}
	if g.board.Failed(ctx, err, "A request to the apiserver failed, keeping the last pods", keysAndValues...) {
		g.unresolved, g.logged[err.Error()] = true, true
	}
}

// ports is the part of an error's text that differs between connections.
var ports = regexp.MustCompile(`\S+:\d+->`)

// stable returns the error with a text that does not depend on the connection.
func stable(err error) error {
	if text := ports.ReplaceAllString(err.Error(), ""); text != err.Error() {
		return sources.Because(sources.ReasonOf(err), errors.New(text))
	}
	return err
}
