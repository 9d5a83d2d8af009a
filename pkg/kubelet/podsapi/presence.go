package podsapi

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// presence is what is known of the kubelet, without its pods.
type presence struct {
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
}

// forget forgets what the kubelet gave. The caller has locked the mutex.
func (c *Client) forget() {
	c.presence = presence{away: c.away}
	c.statuses.forget()
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
	c.presence = presence{connected: true, known: true, since: time.Now()}
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

// lost records that the connection ended, or could not be made. It reports whether the time until the kubelet is away begins: there was
// a connection, or somebody serves the socket of auto now.
func (c *Client) lost(ctx context.Context, err error) (begins bool) {
	absent := c.absent(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins = c.connected; begins {
		c.connected, c.ended = false, time.Now()
	}
	if errors.Is(err, errConfigured) {
		if begins {
			c.lastError = "" // setLate may have set it
		}
		return begins
	}
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
