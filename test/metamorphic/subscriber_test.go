package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"testing/synctest"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// batch is what one call of Next returned.
type batch struct {
	frames []*view.Frame
	err    error
}

// subscriber is a naive client: it applies what it gets, and resumes from the last revision.
type subscriber struct {
	name       string
	uid        uint32
	selector   view.Selector
	labelsOnly bool
	open       func(s *view.Scope, opts view.Options, instance string, since *int64) *view.Cursor
	// resumes is false for a view that can't be resumed.
	resumes bool

	cancel  context.CancelFunc
	permits chan struct{}
	batches chan batch
	waiting bool

	held     map[string]string
	instance string
	since    *int64
	last     *view.Frame
	// strict means that it was not cut within an update, which comes again as a whole.
	strict bool
	// keeps means that it has just resumed from a revision which the journal still has: a reset is a fault.
	keeps bool
}

func stream(mode view.Mode) func(*view.Scope, view.Options, string, *int64) *view.Cursor {
	return func(s *view.Scope, opts view.Options, instance string, since *int64) *view.Cursor {
		ops := view.DefaultOperations(mode)
		ops[config.RECONCILE] = true
		return s.Stream(view.StreamOptions{Options: opts, Mode: mode, Ops: ops, Instance: instance, Since: since})
	}
}

func names(s *view.Scope, opts view.Options, _ string, since *int64) *view.Cursor {
	return s.Names(view.NamesOptions{Options: opts, Since: since})
}

func uids(s *view.Scope, opts view.Options, _ string, _ *int64) *view.Cursor { return s.UIDs(opts) }

// start opens a subscription.
func (s *subscriber) start(w *world) error {
	scope, err := w.gate.Scope(access.Subject{UID: &s.uid})
	if err != nil {
		return err
	}
	opts := view.Options{Selector: s.selector}
	if s.labelsOnly {
		if opts.Fields, err = podfields.ParseMask([]string{"metadata.labels"}); err != nil {
			return err
		}
	}
	if !s.resumes || s.instance != w.journal.Instance() && s.name == "names" {
		s.since = nil
	}
	s.keeps = s.since != nil && s.instance == w.journal.Instance() && *s.since > w.rulesUntil && *s.since >= w.journal.Status().Compacted
	if s.since == nil {
		s.held = map[string]string{}
	}
	s.strict, s.last = s.since == nil, nil
	ctx, cancel := context.WithCancel(w.ctx)
	s.cancel, s.permits, s.batches, s.waiting = cancel, make(chan struct{}), make(chan batch), false
	c := s.open(scope, opts, s.instance, s.since)
	go func() {
		defer c.Close()
		for {
			select {
			case <-s.permits:
			case <-ctx.Done():
				return
			}
			frames, err := c.Next(ctx)
			select {
			case s.batches <- batch{frames, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// cut ends the subscription. What it has got is kept.
func (s *subscriber) cut() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
		synctest.Wait()
	}
}

// read reads up to n batches. It opens the subscription if necessary.
func (s *subscriber) read(w *world, n int) error {
	defer func() { s.keeps = false }() // what comes later may reset it
	for range n {
		if s.cancel == nil {
			if err := s.start(w); err != nil {
				return err
			}
		}
		if !s.waiting {
			s.permits <- struct{}{}
			s.waiting = true
		}
		synctest.Wait()
		select {
		case b := <-s.batches:
			s.waiting = false
			for _, f := range b.frames {
				if err := s.take(f); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
			if err := s.fail(b.err); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// fail handles the error of a subscription. A subscriber that fell behind subscribes again.
func (s *subscriber) fail(err error) error {
	if err == nil {
		return nil
	}
	if _, behind := errors.AsType[*journal.CompactedError](err); !behind || s.keeps {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.cut()
	s.since = nil
	return nil
}

// take applies a frame.
func (s *subscriber) take(f *view.Frame) error {
	if f.Reset && s.keeps {
		return fmt.Errorf("a reset after revision %d, which the journal still has: %s", *s.since, f.Message)
	}
	if f.Revision != 0 {
		if s.since != nil && s.instance == f.Instance && f.Revision < *s.since {
			return fmt.Errorf("%v of revision %d after %d", f.Op, f.Revision, *s.since)
		}
		s.since = new(f.Revision)
	}
	s.instance = f.Instance
	if f.Reset || f.Op == config.SET && (s.last == nil || s.last.Op != config.SET || !s.last.Continues) {
		s.held, s.strict = map[string]string{}, true
	}
	if f.Reset {
		s.since = nil
	}
	s.last = f
	for i, p := range f.Pods {
		uid := string(p.Object.UID)
		if _, held := s.held[uid]; s.strict && f.Op != config.SET && held != (f.Op != config.ADD) {
			return fmt.Errorf("%v of %s, which was held: %t", f.Op, uid, held)
		}
		if f.Op == config.REMOVE {
			delete(s.held, uid)
		} else {
			s.held[uid] = showObject(p.Source, p.Object)
		}
		if len(f.Revisions) > 0 {
			s.since = new(f.Revisions[i])
		}
	}
	return nil
}
