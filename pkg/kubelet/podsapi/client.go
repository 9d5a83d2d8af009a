package podsapi

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
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

	presence
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
