package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
)

// retries are the waits before a reconnect: 25 to 50 ms at first, doubled each time, up to
// 5 s.
var retries = wait.Backoff{Duration: 25 * time.Millisecond, Factor: 2, Jitter: 1, Steps: 32, Cap: 2500 * time.Millisecond}

// Options selects updates and configures reconnects. The fields have the names of the
// parameters of /v1alpha1/updates. Empty fields are not sent.
type Options struct {
	// Mode is the mode of the stream; ModeIncremental if empty.
	Mode v1alpha1.Mode
	// Ops are the operations of the stream, or OpAll. If empty, the mode determines them.
	Ops []v1alpha1.Op
	// Source, Namespace, LabelSelector and FieldSelector select pods.
	Source, Namespace, LabelSelector, FieldSelector string
	// Fields are the fields of the pods to send, as in spec.containers.image; all if empty.
	// Changes of other fields send nothing.
	Fields []string
	// Owner selects pods with this owner, as in deployment/checkout. It requires --owners of the daemon.
	Owner string
	// NoMirrorPods excludes mirror pods, which a kubelet creates in the apiserver for its
	// static pods.
	NoMirrorPods bool
	// Owners requests the owners of the pods: see the Owners of an update. It requires --owners of the daemon.
	Owners bool
	// NamespaceLabels and NodeLabels request the labels and annotations of the namespaces of the pods and of the node. They
	// come in updates with OpMetadata: first all, also after a reconnect, and then each change.
	NamespaceLabels, NodeLabels bool
	// Instance and Since resume a stream of an earlier run. Use the instance and revision of
	// the last handled update with a revision.
	Instance string
	Since    int64
	// OnDisconnect, if set, is called when the stream breaks, with the reason and the time
	// until the next attempt.
	OnDisconnect func(err error, retryIn time.Duration)
	// Once disables reconnects: the sequence ends with the error of the first connection
	// that fails.
	Once bool
}

// Updates yields the updates of the stream until the context is done. It ends with an error if the daemon
// refuses the request, if the certificate of the server can't be verified, or, with Once, if the
// connection fails. After the daemon has accepted the request once, Updates retries if the cause may pass: too many
// subscribers, credentials that are not accepted, an error of the server, a certificate.
func (c *Client) Updates(ctx context.Context, opts Options) iter.Seq2[*v1alpha1.Update, error] {
	return func(yield func(*v1alpha1.Update, error) bool) {
		s := &subscription{client: c, opts: opts, instance: opts.Instance, since: opts.Since}
		read := func() (progress bool, err error) {
			before := s.since
			err = s.read(ctx, func(u *v1alpha1.Update) bool { return yield(u, nil) })
			return s.since != 0 && s.since != before, err
		}
		refused := func(err error) bool { return opts.Once || isFinal(err, s.accepted) }
		if err := reconnect(ctx, read, refused, opts.OnDisconnect); err != nil {
			yield(nil, err)
		}
	}
}

// reconnect calls read for each connection, until the context is done or the caller ends the loop. It returns an error of read that
// is refused. read reports whether the position in the stream has changed.
func reconnect(ctx context.Context, read func() (progress bool, err error), refused func(error) bool, onDisconnect func(error, time.Duration)) error {
	backoff := retries
	for ctx.Err() == nil {
		began := time.Now()
		progress, err := read()
		if progress || time.Since(began) > retries.Cap {
			backoff = retries // a daemon that ends each stream early is asked less and less often
		}
		switch {
		case errors.Is(err, errStopped) || ctx.Err() != nil:
			return nil //nolint:nilerr // the caller has ended it
		case refused(err):
			return err
		}
		pause := backoff.Step()
		if onDisconnect != nil {
			onDisconnect(err, pause)
		}
		_ = await.For(ctx, pause)
	}
	return nil
}

// lostAtStart is why a stream starts again before the client has got a revision.
const lostAtStart = "the connection was lost before the first state was complete"

// errStopped means that the caller ended the loop.
var errStopped = errors.New("stopped")

// subscription is the position in the stream, across connections.
type subscription struct {
	client *Client
	opts   Options
	// instance and since are the instance and revision of the last line with a revision.
	// since is 0 before.
	instance string
	since    int64
	// accepted is true if the daemon has accepted the request, and delivered if an update was delivered.
	accepted, delivered bool
	// parts are the lines of an incomplete update.
	parts []*v1alpha1.Update
}

// read delivers the updates of one connection. It returns errStopped if the caller ended the
// loop, and otherwise the reason why the connection ended.
func (s *subscription) read(ctx context.Context, yield func(*v1alpha1.Update) bool) error {
	body, err := s.client.Get(ctx, "/v1alpha1/updates", s.query())
	if err != nil {
		return err
	}
	defer body.Close()
	s.accepted, s.parts = true, nil
	if s.since == 0 && s.delivered {
		// The stream starts again, and some of the delivered pods may be removed.
		if !yield(&v1alpha1.Update{Op: v1alpha1.OpBookmark, Reset: true, Message: lostAtStart}) {
			return errStopped
		}
	}
	return readLines(body, func(u *v1alpha1.Update) bool { return s.deliver(u, yield) })
}

// readLines delivers the lines of a stream. It returns errStopped if deliver returns false, and otherwise why the stream ended.
func readLines[T any](body io.Reader, deliver func(*T) bool) error {
	decoder := json.NewDecoder(body)
	for {
		line := new(T)
		if err := decoder.Decode(line); err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the daemon ended the stream")
			}
			return fmt.Errorf("reading the stream: %w", err)
		}
		if !deliver(line) {
			return errStopped
		}
	}
}

// isFinal reports whether a retry is useless. After the daemon has accepted the request, some refusals are temporary:
// all subscribers may reconnect at the same time, a token may be renewed, or the daemon may not reach
// the apiserver that it asks about the credentials. If the certificate of the server can't be verified
// at first, a retry does not help. No retry helps against a daemon that can't answer at all.
func isFinal(err error, accepted bool) bool {
	if refusal, ok := errors.AsType[*RefusedError](err); ok {
		temporary := refusal.Code == http.StatusTooManyRequests || refusal.Code == http.StatusUnauthorized ||
			refusal.Code >= http.StatusInternalServerError && refusal.Code != http.StatusNotImplemented
		return !temporary || !accepted
	}
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	return unverified && !accepted
}

func (s *subscription) query() url.Values {
	query := url.Values{}
	set(query, "mode", s.opts.Mode)
	ops := make([]string, len(s.opts.Ops))
	for i, op := range s.opts.Ops {
		ops[i] = string(op)
	}
	set(query, "ops", strings.Join(ops, ","))
	set(query, "source", s.opts.Source)
	set(query, "namespace", s.opts.Namespace)
	set(query, "labelSelector", s.opts.LabelSelector)
	set(query, "fieldSelector", s.opts.FieldSelector)
	set(query, "owner", s.opts.Owner)
	set(query, "fields", strings.Join(s.opts.Fields, ","))
	if s.opts.NoMirrorPods {
		query.Set("mirrorPods", "false")
	}
	set(query, "owners", s.opts.Owners)
	set(query, "namespaceLabels", s.opts.NamespaceLabels)
	set(query, "nodeLabels", s.opts.NodeLabels)
	if s.since != 0 {
		set(query, "instance", s.instance)
		set(query, "since", s.since)
	}
	return query
}

// deliver delivers an update after its last line. It returns false if the caller ended the loop.
func (s *subscription) deliver(u *v1alpha1.Update, yield func(*v1alpha1.Update) bool) bool {
	if u.Reset {
		// The pieces before the reset are void. So is the position: a stream that is resumed from it after the caller has forgotten
		// all pods would not have them.
		s.parts, s.instance, s.since = nil, "", 0
	}
	if u.Op == v1alpha1.OpMetadata { // it can come between the lines of an update
		s.delivered = true
		return yield(u)
	}
	if n := len(s.parts); n > 0 && s.parts[n-1].Op == u.Op && s.parts[n-1].Source == u.Source {
		s.parts[n-1].Pods = append(s.parts[n-1].Pods, u.Pods...)
		if s.parts[n-1].Owners == nil {
			s.parts[n-1].Owners = u.Owners
		} else {
			maps.Copy(s.parts[n-1].Owners, u.Owners)
		}
		s.parts[n-1].Revision = u.Revision
		s.parts[n-1].Restored = s.parts[n-1].Restored || u.Restored
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
		s.delivered = true
		if !yield(part) {
			return false
		}
	}
	if u.Revision != 0 {
		s.instance, s.since = u.Instance, u.Revision
	}
	return true
}
