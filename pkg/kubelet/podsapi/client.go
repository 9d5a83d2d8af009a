package podsapi

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// DefaultPath is the socket of a kubelet with its default root directory.
//
// kubelet: pkg/kubelet/kubelet_getters.go getPodsAPIDir, pkg/kubelet/apis/pods/constants.go.
const DefaultPath = "/var/lib/kubelet/pods-api/pods-api.sock"

// Values of the configuration that are not a path.
const (
	Auto = "auto"
	None = "none"
)

const (
	// AskTimeout is the longest time that Ask waits for the kubelet.
	AskTimeout = time.Second
	// firstRetry and lastRetry are the minimum and maximum wait before the Client connects again. After a connection
	// that lasted for the time steady, the Client does not wait. absentRetry is the maximum wait on a node where no
	// kubelet has served the socket yet.
	firstRetry  = 50 * time.Millisecond
	lastRetry   = 500 * time.Millisecond
	absentRetry = 5 * time.Second
	steady      = 10 * time.Second
	// awayAfter is how long the kubelet may give no status before it counts as away.
	awayAfter = 2 * time.Second
	// maxLogged is the maximum number of errors that are logged while the kubelet is away, each once.
	maxLogged = 10
)

var errConfigured = errors.New("the configuration of the kubelet's Pods API has changed")

// Options configure a Client.
type Options struct {
	// Path is the path of the kubelet's socket, or Auto, or None. With Auto, the Client uses DefaultPath if a kubelet
	// serves it. An empty path is Auto.
	Path string
	// Interval is the time between two lists of all pods. They find changes whose events the kubelet has lost.
	Interval time.Duration
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
	// Ours returns the pods of the sources, without mirror pods, by UID; nil for none.
	Ours func() map[types.UID]SourcePod
	// Apiserver says whether one of the sources is the apiserver. If none is, the pods of the apiserver do not count as
	// unknown to the sources.
	Apiserver bool
	// Connected is called when all pods are known; nil for nothing.
	Connected func()
	// Without reports whether a kubelet without a Pods API runs on the node, if no socket was served since that time. before
	// says whether a kubelet served it before. The Client calls it only with Auto. nil means that there is no such kubelet.
	Without func(since time.Time, before bool) bool
}

// SourcePod is a pod of a source.
type SourcePod struct {
	types.NamespacedName
	// OfOtherSource means that its source is not one of those that a kubelet has: one path, one URL and the apiserver.
	OfOtherSource bool
}

// Client is a client of the kubelet's Pods API. It is safe for concurrent use.
type Client struct {
	timeout time.Duration // callTimeout
	metrics *metrics
	notice  func()
	// ours, without and apiserver are those of Options.
	ours      func() map[types.UID]SourcePod
	without   func(since time.Time, before bool) bool
	apiserver bool
	statuses  *statuses
	// first is closed when the first connection has all pods, or has failed.
	first     chan struct{}
	firstOnce sync.Once

	mu sync.Mutex // guards what follows. Only the goroutine of Run writes settings.
	settings
	// next are the settings of Configure that Run has not taken yet, and end ends its session.
	next *settings
	end  context.CancelCauseFunc

	connected bool
	// since is when the last connection began, or when it ended, if the kubelet is away.
	since time.Time
	// ended is when the last connection ended.
	ended time.Time
	// known means that the kubelet has answered once.
	known bool
	// unserved is the time since which nobody serves the socket; zero if somebody may.
	unserved time.Time
	// older means that the kubelet of the node has no Pods API.
	older bool
	// away means that the kubelet has given no status for awayAfter. logged are the errors that were logged since.
	away      bool
	logged    map[string]struct{}
	lastError string
	// own is the file of a socket that a podconfigd serves.
	own os.FileInfo
}

// settings are what Configure changes.
type settings struct {
	path      string
	auto, off bool
	interval  time.Duration
}

func newSettings(path string, interval time.Duration) settings {
	s := settings{path: path, interval: interval}
	switch path {
	case Auto, "":
		s.path, s.auto = DefaultPath, true
	case None:
		s.path, s.off = "", true
	}
	return s
}

// New returns a client. It does nothing before Run.
func New(opts Options) *Client {
	c := &Client{
		settings: newSettings(opts.Path, opts.Interval),
		timeout:  callTimeout, notice: opts.Connected, ours: opts.Ours, without: opts.Without, apiserver: opts.Apiserver,
		statuses: newStatuses(), first: make(chan struct{}),
	}
	if c.ours == nil {
		c.ours = func() map[types.UID]SourcePod { return nil }
	}
	if c.without == nil {
		c.without = func(time.Time, bool) bool { return false }
	}
	c.metrics = newMetrics(opts.Registerer, c)
	return c
}

// Enabled reports whether the configuration has a Pods API of the kubelet, and the kubelet may have one.
func (c *Client) Enabled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.off && !c.older
}

// Configure changes the path and the interval of Options. It does not wait until that has an effect.
func (c *Client) Configure(path string, interval time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := newSettings(path, interval)
	if c.next == nil && next == c.settings {
		return // the session goes on
	}
	c.next = &next
	if c.end != nil {
		c.end(errConfigured)
	}
}

// begin takes the settings of Configure, and returns the context of the next session. If the path has changed, it
// forgets what the kubelet gave, and returns true.
func (c *Client) begin(ctx context.Context) (session context.Context, other bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		c.end(nil)
	}
	if next := c.next; next != nil {
		if other = next.path != c.path; other {
			c.forget()
			c.own, c.away = nil, false
		}
		c.settings, c.next = *next, nil
	}
	ctx, c.end = context.WithCancelCause(ctx)
	return ctx, other
}

// forget forgets what the kubelet gave. The caller has locked the mutex.
func (c *Client) forget() {
	c.known, c.logged, c.lastError, c.since, c.ended, c.unserved, c.older = false, nil, "", time.Time{}, time.Time{}, time.Time{}, false
	c.statuses.forget()
}

// Ask waits until the statuses of the kubelet are known, or the first connection has failed, for at most AskTimeout.
func (c *Client) Ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-c.first:
	}
}

// Watch returns a channel that receives when Changed has pods to return, or Enabled has changed.
func (c *Client) Watch() <-chan struct{} { return c.statuses.notices }

// Changed returns the pods whose status changed, each at most once a second.
func (c *Client) Changed() []types.UID { return c.statuses.dueChanges() }

// Status returns the last status that the kubelet sent of a pod; nil if it sent none. live is false while the kubelet is away.
// The status is immutable.
func (c *Client) Status(uid types.UID) (status *v1.PodStatus, live bool) {
	c.statuses.mu.Lock()
	defer c.statuses.mu.Unlock()
	if e := c.statuses.pods[uid]; e != nil {
		status = e.status
	}
	return status, c.statuses.live
}

// Run stays connected to the kubelet until the context is done. It returns the cause of the context.
func (c *Client) Run(ctx context.Context) error {
	defer c.statuses.stop()
	away := time.AfterFunc(awayAfter, func() { c.goneAway(ctx) })
	defer away.Stop()
	var wait time.Duration
	for {
		began := time.Now()
		session, other := c.begin(ctx)
		if other {
			away.Reset(awayAfter)
		}
		err := c.session(session, func() {
			away.Stop()
			c.setConnected(ctx)
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.firstOnce.Do(func() { close(c.first) })
		if c.lost(ctx, err) {
			away.Reset(awayAfter)
		}
		c.checkOlder(ctx, err)
		if !c.absent(err) {
			wait = min(wait, lastRetry)
		}
		if time.Since(began) >= steady {
			wait = 0
		}
		_ = await.For(session, wait)
		wait = min(max(firstRetry, 2*wait), absentRetry)
	}
}

// goneAway is called awayAfter after the connection ended.
func (c *Client) goneAway(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.connected {
		c.away, c.since = true, c.ended
		c.statuses.setLive(false)
		c.logError(ctx)
	}
}

// logError logs why the kubelet is away. The caller has locked the mutex.
func (c *Client) logError(ctx context.Context) {
	_, logged := c.logged[c.lastError]
	if !c.away || c.lastError == "" || logged || len(c.logged) == maxLogged {
		return
	}
	if c.logged == nil {
		c.logged = make(map[string]struct{})
	}
	c.logged[c.lastError] = struct{}{}
	message := "The kubelet gives no status of pods"
	if c.known {
		message += "; what it last gave stands"
	}
	klog.FromContext(ctx).Info(message, "socket", c.path, "err", c.lastError)
}

// setConnected records that the connection has all pods.
func (c *Client) setConnected(ctx context.Context) {
	logger := klog.FromContext(ctx)
	c.mu.Lock()
	if c.known && !c.away {
		logger = logger.V(2)
	}
	c.connected, c.known, c.since, c.lastError, c.away, c.logged = true, true, time.Now(), "", false, nil
	c.unserved, c.older = time.Time{}, false
	c.statuses.setLive(true)
	c.mu.Unlock()
	c.firstOnce.Do(func() { close(c.first) })
	if c.notice != nil {
		c.notice()
	}
	logger.Info("The kubelet gives the status of pods", "socket", c.path)
}

// checkOlder records that nobody serves the socket, and that the kubelet has no Pods API. It then forgets what a kubelet gave
// before.
func (c *Client) checkOlder(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.auto || !isUnserved(err):
		c.unserved = time.Time{}
	case c.unserved.IsZero():
		c.unserved = time.Now()
	}
	if c.unserved.IsZero() || c.older || !c.without(c.unserved, c.known) {
		return
	}
	if c.known {
		klog.FromContext(ctx).Info("The kubelet has no Pods API any more; the status of pods is computed", "socket", c.path)
	}
	c.forget()
	c.older = true
}

// isUnserved reports whether no kubelet serves the socket.
func isUnserved(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, errOurs)
}

// setLate records that the kubelet has refused all lists since a time; zero if it no longer does.
func (c *Client) setLate(ctx context.Context, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastError = ""; since.IsZero() {
		klog.FromContext(ctx).Info("The kubelet lists its pods again", "socket", c.path)
		return
	}
	c.lastError = "the kubelet has refused to list its pods since " + since.Local().Format(time.DateTime) +
		", because its clients together send too many requests: the status of a pod can be late"
	klog.FromContext(ctx).Info("The kubelet refuses to list its pods, because its clients together send too many requests; the status of a pod can be late",
		"socket", c.path, "since", since.Truncate(time.Second))
}

// absent reports whether no kubelet is expected: the error is of a socket that no kubelet serves, and none has served it.
func (c *Client) absent(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.auto && !c.known && (isUnserved(err) || errors.Is(err, fs.ErrPermission))
}

// disconnect records that Configure ended the connection. It reports whether there was one.
func (c *Client) disconnect() (was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, c.connected = c.connected, false
	if was {
		c.ended, c.lastError = time.Now(), "" // setLate may have set it
	}
	return was
}

// lost records that the connection ended, or could not be made. It reports whether the time until the kubelet is away begins: there was
// a connection, or somebody serves the socket of auto now.
func (c *Client) lost(ctx context.Context, err error) (begins bool) {
	if errors.Is(err, errConfigured) {
		return c.disconnect()
	}
	absent := c.absent(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	begins = c.connected
	if begins {
		c.ended = time.Now()
	}
	c.connected = false
	if c.auto && !c.known && !absent && c.lastError == "" {
		begins, c.away = true, false
	}
	if c.lastError = ""; !absent {
		c.lastError = printable.Cut(err.Error(), maxText)
	}
	klog.FromContext(ctx).V(2).Info("The connection to the kubelet's Pods API ended", "socket", c.path, "err", c.lastError)
	c.logError(ctx)
	return begins
}
