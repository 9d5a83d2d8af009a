package lookup

import (
	"context"
	"time"
)

// wait waits until the answer is complete, or can't improve.
func (l *Lookup) wait(ctx context.Context, q *Query, t *target, f *finding) (*finding, error) {
	timer := time.NewTimer(time.Until(f.until))
	defer timer.Stop()
	for {
		var recorded, delivered <-chan struct{}
		leave := func() {}
		if len(f.keys) > 0 {
			ch, stop := l.pods.await(f.keys)
			delivered, leave = ch, stop
		}
		stop := func() {}
		if len(f.ids) > 0 {
			recorded, stop = l.runtime.Await(f.ids...)
		}
		f = l.find(q, t) // it may have become known in the meantime
		var err error
		if f.improves(time.Now()) {
			timer.Reset(time.Until(f.until))
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-recorded:
			case <-delivered:
			case <-timer.C:
			}
			f = l.find(q, t)
		}
		leave()
		stop()
		if err != nil || !f.improves(time.Now()) {
			return f, err
		}
	}
}
