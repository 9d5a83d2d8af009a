package containers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
	"weak"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

const (
	// batch is the number of changes or rows that a cursor reads at once, and batchBytes the size of their rows from which it reads no
	// more: a subscriber that does not read holds them.
	batch      = 64
	batchBytes = 64 << 10
	// progress is the number of changes that a subscriber does not see, after which it gets a bookmark.
	progress = maxChanges / 4
	// listTimeout is how long a list waits for the first list of the runtime.
	listTimeout = time.Second
)

// WatchOptions are the options of Watch and List.
type WatchOptions struct {
	// Selector selects containers by their pods. Its fields are metadata.name, metadata.namespace and metadata.uid.
	Selector view.Selector
	// Labels and Owners request those of the pods.
	Labels, Owners bool
	// Instance and Since are where to resume. Instance may be empty. If Since is nil, the present containers come first.
	Instance string
	Since    *int64
}

// Cursor is the position of a subscriber. Its methods belong to one goroutine.
type Cursor struct {
	stream *Stream
	scope  *view.Scope
	opts   WatchOptions
	leave  func()

	// recording is nil before the first Next, and after its end.
	recording *recording
	phase     phase
	// reset is why the subscriber gets a reset; empty for none.
	reset string
	// rows are those of the present rows that are left to send. A subscriber that does not read must not hold them: one that is neither
	// present nor in the ring any more is gone.
	rows []weak.Pointer[row]
	// position is the revision that the subscriber has reached, and sent the last one that it got.
	position, sent int64
}

// phase is what a cursor does.
type phase int

const (
	starts phase = iota
	opens        // waits for the first list of the runtime
	sends        // sends the present rows
	follows
)

// Watch starts a subscription. The scope has the pods that the client may see. The caller must close the cursor.
func (s *Stream) Watch(scope *view.Scope, opts WatchOptions) *Cursor {
	return &Cursor{stream: s, scope: scope, opts: opts, leave: s.enter()}
}

// Close ends the subscription.
func (c *Cursor) Close() { c.leave() }

// Next returns the next updates. It waits until there are some or the context is done. The error is the cause of the context, or
// that of view.Scope.Err.
func (c *Cursor) Next(ctx context.Context) ([]*v1alpha1.ContainerUpdate, error) {
	for {
		if err := c.start(ctx); err != nil {
			return nil, err
		}
		updates, changed, err := c.poll()
		if err != nil || len(updates) > 0 {
			return updates, err
		}
		if changed == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// start finds the recording, and whether the subscriber can resume. The error is the cause of the context.
func (c *Cursor) start(ctx context.Context) error {
	if c.recording != nil {
		return nil
	}
	r, err := c.stream.current(ctx)
	if err != nil {
		return err
	}
	c.recording = r
	r.mu.Lock()
	defer r.mu.Unlock()
	since, before := c.opts.Since, c.phase
	c.phase = opens
	switch {
	case before != starts || since == nil:
	case c.opts.Instance != "" && c.opts.Instance != r.instance:
		c.reset = fmt.Sprintf("revision %d belongs to instance %s, this instance is %s", *since, c.opts.Instance, r.instance)
	default:
		if _, ok := r.after(*since, 0); !ok {
			c.reset = fmt.Sprintf("the changes after revision %d are not there: the last one is %d", *since, r.revision)
			break
		}
		c.phase, c.position, c.sent = follows, *since, *since
	}
	return nil
}

// poll returns the updates that there are. If it returns a channel, it is closed when there may be more.
func (c *Cursor) poll() (updates []*v1alpha1.ContainerUpdate, changed <-chan struct{}, err error) {
	r := c.recording
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended != "":
		c.recording, c.reset, c.rows = nil, r.ended, nil
		return nil, nil, nil
	case c.phase == opens && !r.synced:
		return nil, r.changed, nil
	case c.phase == opens:
		c.phase, c.rows, c.position = sends, nil, r.revision
		for _, row := range r.present() {
			c.rows = append(c.rows, weak.Make(row))
		}
		if c.reset != "" {
			updates = append(updates, &v1alpha1.ContainerUpdate{Instance: r.instance, Op: v1alpha1.OpBookmark, Reset: true, Message: c.reset})
			c.reset = ""
		}
		fallthrough
	case c.phase == sends:
		updates, err = c.send(updates)
		return updates, nil, err
	}
	changes, ok := r.after(c.position, batch)
	if !ok {
		c.fallBehind()
		return nil, nil, nil
	}
	updates, err = c.follow(changes)
	if c.position == r.revision {
		changed = r.changed
	}
	return updates, changed, err
}

// fallBehind has the subscriber start again.
func (c *Cursor) fallBehind() {
	c.phase, c.rows = opens, nil
	c.reset = fmt.Sprintf("the subscriber fell behind: the changes after revision %d are gone", c.sent)
}

// follow returns the updates of changes, and a bookmark if the subscriber has not seen many of them.
func (c *Cursor) follow(changes []change) (updates []*v1alpha1.ContainerUpdate, err error) {
	err = c.scope.Within(c.opts.Selector, func(grant *access.Grant, see func(*journal.Pod) *journal.Pod) {
		size := 0
		for i := 0; i < len(changes) && size < batchBytes; i++ {
			c.position++
			if u := c.update(&changes[i], grant, see); u != nil {
				size += changes[i].after.size()
				u.Instance, u.Revision, u.Time = c.recording.instance, c.position, &changes[i].time
				updates, c.sent = append(updates, u), c.position
			}
		}
	})
	if err == nil && c.position-c.sent >= progress {
		c.sent = c.position
		updates = append(updates, &v1alpha1.ContainerUpdate{Instance: c.recording.instance, Op: v1alpha1.OpBookmark, Revision: c.position})
	}
	return updates, err
}

// send adds the next of the present containers, and the bookmark after the last one.
func (c *Cursor) send(updates []*v1alpha1.ContainerUpdate) ([]*v1alpha1.ContainerUpdate, error) {
	err := c.scope.Within(c.opts.Selector, func(grant *access.Grant, see func(*journal.Pod) *journal.Pod) {
		size := 0
		for ; len(c.rows) > 0 && len(updates) < batch && size < batchBytes; c.rows = c.rows[1:] {
			row := c.rows[0].Value()
			if row == nil {
				c.fallBehind()
				return
			}
			if seen := row.seen(&c.opts, grant, see); seen != nil {
				size += row.size()
				updates = append(updates, &v1alpha1.ContainerUpdate{Instance: c.recording.instance, Op: v1alpha1.OpAdd, Container: seen})
			}
		}
	})
	if err == nil && len(c.rows) == 0 && c.phase == sends {
		c.phase, c.sent = follows, c.position
		updates = append(updates, &v1alpha1.ContainerUpdate{
			Instance: c.recording.instance, Op: v1alpha1.OpBookmark, Revision: c.position, InitialSyncComplete: true,
		})
	}
	return updates, err
}

// update returns what the subscriber sees of a change; nil for nothing.
func (c *Cursor) update(change *change, grant *access.Grant, see func(*journal.Pod) *journal.Pod) *v1alpha1.ContainerUpdate {
	was, is := change.before.seen(&c.opts, grant, see), change.after.seen(&c.opts, grant, see)
	switch {
	case was == nil && (is == nil || change.removed):
		return nil
	case was == nil:
		return &v1alpha1.ContainerUpdate{Op: v1alpha1.OpAdd, Container: is}
	case is == nil:
		return &v1alpha1.ContainerUpdate{Op: v1alpha1.OpRemove, Container: was}
	case change.removed:
		return &v1alpha1.ContainerUpdate{Op: v1alpha1.OpRemove, Container: is}
	case reflect.DeepEqual(was, is):
		return nil
	}
	return &v1alpha1.ContainerUpdate{Op: v1alpha1.OpUpdate, Container: is}
}

var errUnlisted = errors.New("listing the containers: the container runtime has not been listed yet")

// List returns the present containers. It waits some time for the first list of the runtime. The error is that of Next.
func (s *Stream) List(ctx context.Context, scope *view.Scope, opts WatchOptions) (*v1alpha1.Containers, error) {
	opts.Since = nil
	cursor := s.Watch(scope, opts)
	defer cursor.Close()
	if err := cursor.start(ctx); err != nil { // to read the first handles can take longer
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errUnlisted)
	defer cancel()
	list := &v1alpha1.Containers{Containers: []v1alpha1.PodContainer{}}
	for {
		updates, err := cursor.Next(ctx)
		if errors.Is(err, errUnlisted) {
			if behind := s.opts.Runtime.Behind(time.Time{}); behind != nil {
				err = fmt.Errorf("%w: %w", err, behind)
			}
		}
		if err != nil {
			return nil, err
		}
		for _, u := range updates {
			switch {
			case u.Reset:
				list.Containers = list.Containers[:0]
			case u.Container != nil:
				list.Containers = append(list.Containers, *u.Container)
			case u.InitialSyncComplete:
				list.Instance, list.Revision = u.Instance, u.Revision
				return list, nil
			}
		}
	}
}
