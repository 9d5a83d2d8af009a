package sources

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Board has the status of a source. The source writes it, others read it.
type Board struct {
	degraded prometheus.Gauge

	mu     sync.Mutex // guards status; only Update's function is called under it
	status v1alpha1.SourceStatus
}

// NewBoard returns a board with that status. The gauge is 1 while the source is
// degraded.
func NewBoard(status v1alpha1.SourceStatus, degraded prometheus.Gauge) *Board {
	return &Board{status: status, degraded: degraded}
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

// Failed records that the source can't be read. It logs the error with the message, but
// not if it is the same error as the last. A very long error is cut.
func (b *Board) Failed(ctx context.Context, err error, message string, keysAndValues ...any) {
	b.degraded.Set(1)
	text, news := ShortText(err.Error()), false
	if text != err.Error() {
		err = errors.New(text)
	}
	b.Update(func(status *v1alpha1.SourceStatus) {
		if !status.Degraded {
			now := time.Now()
			status.Degraded, status.DegradedSince = true, &now
		}
		news = status.LastError != text
		status.LastError = text
	})
	if news {
		klog.FromContext(ctx).Error(err, message, keysAndValues...)
	}
}

// Succeeded records that the source can be read. It logs the message if the source was
// degraded.
func (b *Board) Succeeded(ctx context.Context, message string) {
	b.degraded.Set(0)
	var since *time.Time
	b.Update(func(status *v1alpha1.SourceStatus) {
		since = status.DegradedSince
		status.Degraded, status.DegradedSince, status.LastError = false, nil, ""
	})
	if since != nil {
		klog.FromContext(ctx).Info(message, "after", time.Since(*since).Round(time.Millisecond))
	}
}

// Sent records that a set was sent.
func (b *Board) Sent() {
	now := time.Now()
	b.Update(func(status *v1alpha1.SourceStatus) { status.LastChange = &now })
}
