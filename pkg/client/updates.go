package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// retries are the waits before a connection is tried again: 25 to 50 ms, then twice as
// long each time up to 5 s.
var retries = wait.Backoff{Duration: 25 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: 2500 * time.Millisecond}

// Options say which updates are wanted, and what is done between connections. The
// names are those of the parameters of /v1alpha1/updates; empty ones are left out.
type Options struct {
	Mode, Ops, Source, Namespace, LabelSelector, FieldSelector string
	// NoMirrorPods leaves out the pods by which a kubelet shows static pods to the
	// apiserver.
	NoMirrorPods bool
	// Instance and Since resume a stream that an earlier process read: they are those of
	// the last update that had a revision, and that it has acted on.
	Instance string
	Since    int64
	// OnDisconnect is told, where it is set, why the stream broke off and after what
	// time it is tried again.
	OnDisconnect func(err error, retryIn time.Duration)
	// Once ends the sequence with the error of the first connection that fails, for
	// those who would rather start anew themselves.
	Once bool
}

// Updates yields the updates of the stream until the context is done, and then
// ends. An error ends it too: the daemon refused the request, or, with Once, the
// connection failed. That there are too many subscribers is a refusal at first; a
// reader that has been one waits for its place.
func (c *Client) Updates(ctx context.Context, opts Options) iter.Seq2[*v1alpha1.Update, error] {
	return func(yield func(*v1alpha1.Update, error) bool) {
		s := &subscription{client: c, opts: opts, instance: opts.Instance, since: opts.Since}
		backoff := retries
		for ctx.Err() == nil {
			err := s.read(ctx, func(u *v1alpha1.Update) bool {
				backoff = retries
				return yield(u, nil)
			})
			switch {
			case errors.Is(err, errStopped) || ctx.Err() != nil:
				return
			case opts.Once || s.refused(err):
				yield(nil, err)
				return
			}
			pause := backoff.Step()
			if opts.OnDisconnect != nil {
				opts.OnDisconnect(err, pause)
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
}

// errStopped says that the reader wants no more.
var errStopped = errors.New("stopped")

// subscription is the place in the stream, over all connections.
type subscription struct {
	client *Client
	opts   Options
	// instance and since are those of the last line that had a revision: what to resume
	// from. since is 0 until then.
	instance string
	since    int64
	// handed: the reader has been given something.
	handed bool
	// parts are the lines of an update that is not whole yet.
	parts []*v1alpha1.Update
}

// read hands on the updates of one connection. It returns errStopped where the
// reader wants no more, and else why the connection ended.
func (s *subscription) read(ctx context.Context, yield func(*v1alpha1.Update) bool) error {
	body, err := s.client.get(ctx, "/v1alpha1/updates", s.query())
	if err != nil {
		return err
	}
	defer body.Close()
	s.parts = nil
	if s.since == 0 && s.handed {
		// What was handed on is told again; some of it may be gone.
		if !yield(&v1alpha1.Update{Op: "BOOKMARK", Reset: true, Message: "the connection was lost before the first state was complete"}) {
			return errStopped
		}
	}
	decoder := json.NewDecoder(body)
	for {
		u := new(v1alpha1.Update)
		if err := decoder.Decode(u); err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the daemon ended the stream")
			}
			return fmt.Errorf("reading the stream: %w", err)
		}
		if !s.take(u, yield) {
			return errStopped
		}
	}
}

// refused tells whether the daemon won't do what is asked, however often. Places may be
// short for a moment where all readers come back at a time.
func (s *subscription) refused(err error) bool {
	refusal, ok := errors.AsType[*RefusedError](err)
	return ok && (refusal.Code != http.StatusTooManyRequests || !s.handed)
}

func (s *subscription) query() url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("mode", s.opts.Mode)
	set("ops", s.opts.Ops)
	set("source", s.opts.Source)
	set("namespace", s.opts.Namespace)
	set("labelSelector", s.opts.LabelSelector)
	set("fieldSelector", s.opts.FieldSelector)
	if s.opts.NoMirrorPods {
		query.Set("mirrorPods", "false")
	}
	if s.since != 0 {
		set("instance", s.instance)
		query.Set("since", strconv.FormatInt(s.since, 10))
	}
	return query
}

// take hands a line on, with those that belong to it, once the last of them is
// there. It returns false where the reader wants no more.
func (s *subscription) take(u *v1alpha1.Update, yield func(*v1alpha1.Update) bool) bool {
	if u.Reset {
		s.parts = nil // what had begun is void
	}
	if n := len(s.parts); n > 0 && s.parts[n-1].Op == u.Op && s.parts[n-1].Source == u.Source {
		s.parts[n-1].Pods = append(s.parts[n-1].Pods, u.Pods...)
		s.parts[n-1].Revision = u.Revision
	} else {
		s.parts = append(s.parts, u)
	}
	if u.Continues {
		return true
	}
	whole := s.parts
	s.parts = nil
	for _, part := range whole {
		part.Continues = false
		s.handed = true
		if !yield(part) {
			return false
		}
	}
	if u.Revision != 0 {
		s.instance, s.since = u.Instance, u.Revision
	}
	return true
}
