package top

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/client"
)

const (
	// statusPeriod is the time between two requests of the status, statusTimeout the longest
	// wait for one. refusedPeriod is the wait after the daemon refused the stream.
	statusPeriod  = time.Second
	statusTimeout = 5 * time.Second
	refusedPeriod = 5 * time.Second
	// maxBatch is the maximum number of updates in a message. While the terminal is slow, the
	// feed waits, and the daemon treats it as a slow subscriber.
	maxBatch = 1024
)

// event is an update, or what happened to the stream.
type event struct {
	update *v1alpha1.Update
	// down is why the connection broke. The client reconnects.
	down error
	// refused is why the daemon refused the stream.
	refused error
	// restart is true before the first update of a stream that starts again.
	restart bool
	// owned is true if the stream has the owners of pods.
	owned bool
}

// Messages to the model.
type (
	eventsMsg []event
	statusMsg struct {
		status *v1alpha1.Status
		err    error
	}
)

// feed sends the updates and the status of the daemon to the model.
type feed struct {
	client *client.Client
	opts   client.Options
	send   func(tea.Msg)
}

// run feeds the model until the context is done.
func (f *feed) run(ctx context.Context) {
	events := make(chan event, maxBatch)
	var wg sync.WaitGroup
	wg.Go(func() { f.read(ctx, events) })
	wg.Go(func() { f.forward(ctx, events) })
	wg.Go(func() { f.poll(ctx) })
	wg.Wait()
}

// read reads the stream. If the daemon refuses it, for example because access rules show no
// pod, read tries again later.
func (f *feed) read(ctx context.Context, events chan<- event) {
	put := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	opts := f.opts
	opts.OnDisconnect = func(err error, _ time.Duration) { put(event{down: err}) }
	opts.Owners = true
	for restart := false; ctx.Err() == nil; restart = true {
		var refused error
		for u, err := range f.client.Updates(ctx, opts) {
			if err != nil {
				refused = err
				break
			}
			put(event{update: u, restart: restart, owned: opts.Owners})
			restart = false
		}
		if e, ok := errors.AsType[*client.RefusedError](refused); ok && e.Code == http.StatusBadRequest && opts.Owners {
			opts.Owners = false // it does not know them
			continue
		}
		if refused != nil {
			put(event{refused: refused})
		}
		_ = await.For(ctx, refusedPeriod)
	}
}

// forward sends the waiting events together, so that a burst is drawn once.
func (f *feed) forward(ctx context.Context, events <-chan event) {
	for {
		var batch eventsMsg
		select {
		case e := <-events:
			batch = append(batch, e)
		case <-ctx.Done():
			return
		}
		for len(batch) < maxBatch && len(events) > 0 {
			batch = append(batch, <-events)
		}
		f.send(batch)
	}
}

func (f *feed) poll(ctx context.Context) {
	for ctx.Err() == nil {
		request, cancel := context.WithTimeout(ctx, statusTimeout)
		status, err := f.client.Status(request)
		cancel()
		if ctx.Err() != nil {
			return
		}
		f.send(statusMsg{status, err})
		_ = await.For(ctx, statusPeriod)
	}
}
