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
)

const (
	// lastRetry is the longest wait after a failure, nodeRetry that while the apiserver
	// does not know the node, and maxRetryAfter what an apiserver may ask for.
	//
	// kubelet: WaitForAPIServerSyncPeriod is what nodeRetry is.
	lastRetry     = 10 * time.Second
	nodeRetry     = time.Second
	maxRetryAfter = time.Minute
	// lasting is how long a watch must last to end the row of failures before it.
	lasting = lastRetry
	// loggedErrors bounds how many different errors of a row are logged.
	loggedErrors = 16
)

// retries are the waits after failures: an eighth to a quarter of a second, then twice
// as long each time.
var retries = wait.Backoff{Duration: 125 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: lastRetry / 2}

// gate is what every request passes, whatever it asks for. All share one back-off, and
// each failure is counted, logged and shown here.
//
// Failures are in a row until a watch has lasted. That a request succeeded does not end
// the row: the next one can fail again at once, as where lists work and watches don't.
type gate struct {
	board   *board
	metrics *metrics

	mu      sync.Mutex // guards what follows; the board's are taken while it is held
	backoff wait.Backoff
	next    time.Time // when the next attempt may be made
	// asking is why the last attempt failed, files why the kubeconfig, or what it names,
	// can't be used.
	asking, files error
	// silent: a watch fell silent, and the next ones told nothing either.
	silent bool
	// logged has the errors of this row that were logged, unresolved tells whether one was
	// since the last success that was.
	logged     map[string]bool
	unresolved bool
}

func newGate(b *board, m *metrics) *gate {
	return &gate{board: b, metrics: m, backoff: retries, logged: make(map[string]bool)}
}

// pause returns how long it is until the next attempt may be made.
func (g *gate) pause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.next)
}

// failed notes that an attempt failed, or what it began. The server may have asked to be
// left alone for some time.
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

// succeeded notes that there is a watch, or that it told something.
func (g *gate) succeeded(ctx context.Context, told bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = g.silent && !told
	if g.asking != nil && !g.silent {
		g.asking = nil
		g.show(ctx)
	}
}

// isSilent tells whether a watch fell silent, and the next ones told nothing either.
func (g *gate) isSilent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.silent
}

// calm ends the row of failures.
func (g *gate) calm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backoff, g.next = retries, time.Time{}
	clear(g.logged)
}

// read notes whether the files could be used.
func (g *gate) read(ctx context.Context, broken error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if broken != nil || g.files != nil {
		g.files = broken
		g.show(ctx)
	}
}

// show has the board tell what is wrong. It is called with the lock held.
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
		g.unresolved = false
		g.board.Succeeded(ctx, "Asking the apiserver succeeded again")
		return
	}
	if log {
		g.unresolved, g.logged[err.Error()] = true, true
	}
	g.board.Failed(ctx, err, "Asking the apiserver failed; the last pods are held", keysAndValues...)
}

// ports are what differs in the text of the same error from one connection to the next.
var ports = regexp.MustCompile(`\S+:\d+->`)

// stable returns the error with a text that is the same whatever the connection.
func stable(err error) error {
	if text := ports.ReplaceAllString(err.Error(), ""); text != err.Error() {
		return errors.New(text)
	}
	return err
}
