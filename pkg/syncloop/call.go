package syncloop

import (
	"context"
	"time"
)

// call is a request for the goroutine of Run.
type call struct {
	what   string
	do     func(context.Context) error
	result chan<- error
}

// call makes Run call the function, and returns its error, or the cause of the context.
func (l *Loop) call(ctx context.Context, what string, do func(context.Context) error) error {
	result := make(chan error, 1)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case l.calls <- call{what, do, result}:
	}
	select { // the loop may have ended
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-result:
		return err
	}
}

// SetSyncFrequency changes Options.SyncFrequency while Run runs. A pod that would be due later
// than with the new one gets a new time. The error is the cause of the context.
func (l *Loop) SetSyncFrequency(ctx context.Context, frequency time.Duration) error {
	return l.call(ctx, "reload", func(context.Context) error {
		l.queue.setPeriod(frequency, time.Now())
		return nil
	})
}
