package events

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/podconfigd/podconfigd/internal/await"
)

// requestTimeout is the maximum time for a request.
const requestTimeout = 10 * time.Second

// write writes the events that are due. It stops at the time of the next look.
func (r *Writer) write(ctx context.Context, all []due, until time.Time) {
	for _, d := range all {
		now := time.Now()
		ofManifest := d.rank() > 0
		switch {
		case ctx.Err() != nil || now.After(until) || r.failures.waiting("", now):
			return
		case d.retry.Waits(now) || r.failures.waiting(namespaceOf(&d.on), now) || ofManifest && r.manifests.TokensAt(now) < 1:
			continue
		case !r.requests.AllowN(now, 1):
			return
		}
		if r.writeOne(ctx, d) {
			d.limit.AllowN(now, 1)
			if ofManifest {
				r.manifests.AllowN(now, 1)
			}
		}
	}
}

// writeOne writes an event. It reports false if the event has to be tried again.
func (r *Writer) writeOne(ctx context.Context, d due) bool {
	if d.correlated == nil {
		r.correlating = &d.subject
		event := r.newEvent(&d.on, d.next, d.since)
		result, err := r.correlator.EventCorrelate(event)
		if err != nil { // there is no patch
			result = &record.EventCorrelateResult{Event: event}
		}
		d.correlated = result
	}
	err := r.send(ctx, d.correlated)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		r.metrics.written.WithLabelValues(d.next.reason).Inc()
		r.failures.endSeries(ctx, d, r.entries)
	case isFinal(err):
		r.metrics.failures.Inc()
		r.failures.log(ctx, err, "The apiserver rejected an event", namespaceOf(&d.on))
	default:
		r.metrics.failures.Inc()
		r.failures.addFailure(ctx, d, err, time.Now())
		return false
	}
	d.written, d.correlated, d.retry = d.next, nil, await.Backoff{}
	return true
}

// isFinal reports whether the apiserver would reject the same request again.
func isFinal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// errAnswer means that the apiserver answered with another object.
var errAnswer = errors.New("it is another object")

// send creates the event, or patches it if it was created before.
//
// client-go: recordEvent in tools/record/event.go.
func (r *Writer) send(ctx context.Context, what *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	event, path := *what.Event, "/api/v1/namespaces/"+what.Event.Namespace+"/events"
	var answer []byte
	var err error
	create := event.Count == 1
	if !create {
		answer, err = r.opts.Client.Patch(ctx, path+"/"+event.Name, types.StrategicMergePatchType, what.Patch)
		create = apierrors.IsNotFound(err) // it has expired
	}
	if create {
		event.TypeMeta, event.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ""
		body, encodeErr := json.Marshal(&event)
		if encodeErr != nil {
			return fmt.Errorf("encoding an event: %w", encodeErr)
		}
		answer, err = r.opts.Client.Post(ctx, path, body)
	}
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier request was successful, but its answer was lost
	}
	if err != nil {
		return err
	}
	var stored v1.Event
	if err := json.Unmarshal(answer, &stored); err != nil || stored.Name != event.Name {
		return fmt.Errorf("writing an event: the answer is not the event, it can be that of a proxy: %w", cmp.Or(err, errAnswer))
	}
	r.correlator.UpdateState(&stored)
	return nil
}
