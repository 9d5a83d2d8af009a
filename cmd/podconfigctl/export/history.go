package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// outcome is what the history of the daemon says about the changes after a position.
type outcome int

const (
	// unknown is that changes can be missing.
	unknown outcome = iota
	// none is that there were no changes.
	none
	// exported is that the stream is to be opened again at the position that was reached.
	exported
)

// fill exports the changes after a position from the history of the daemon, which the stream of an instance can't resume from. It
// returns the position that it has reached.
func (e *exporter) fill(ctx context.Context, from position, instance string, emit func(item) bool) (position, outcome) {
	stream := e.Stream()
	if from.Revision == 0 || !inHistory(&stream) {
		return from, unknown
	}
	convert, oldest, after := newConverter(e, from), true, unknown
	if instance == from.Instance { // otherwise, changes were not stored
		after = none
	}
	for r, err := range e.client.History(ctx, client.HistoryOptions{Source: stream.Source, Owner: stream.Owner, Pods: true}) {
		if err != nil {
			return convert.at, e.unread(ctx, err)
		}
		missing := r.Gap
		switch {
		case oldest && r.Instance != from.Instance:
			return from, unknown
		case oldest && r.Revision > from.Revision && missing == "":
			missing = "the history of the daemon begins later"
		}
		oldest = false
		if r.Revision <= convert.at.Revision {
			if missing != "" && r.Revision == convert.at.Revision { // at the end of the history
				after = unknown
			}
			continue
		}
		var items []item
		if missing != "" {
			e.gaps.Inc()
			items = []item{{record: gap(convert.at, fmt.Sprintf("changes after revision %d can be missing: %s", convert.at.Revision, missing))}}
		}
		for _, i := range append(items, convert.items(e.update(r, &stream))...) {
			if !emit(i) {
				return convert.at, exported
			}
		}
	}
	switch {
	case convert.at != from:
		return convert.at, exported
	case oldest: // there is nothing at all
		return from, unknown
	}
	return from, after
}

// inHistory reports whether the history can select what the stream selects: it has no labels and no fields.
func inHistory(stream *client.Options) bool {
	return stream.LabelSelector == "" && stream.FieldSelector == "" && len(stream.Fields) == 0
}

// unread returns the outcome if the history can't be read.
func (e *exporter) unread(ctx context.Context, err error) outcome {
	if refused, ok := errors.AsType[*client.RefusedError](err); ok && (refused.Code == http.StatusNotFound || refused.Code == http.StatusForbidden) {
		return unknown // there is no state directory, or the client may not read it
	}
	e.note(fmt.Errorf("reading the history of the daemon: %w", err))
	_ = await.For(ctx, retryDaemon)
	return exported
}

// update returns the update of a record of the history. It has no pods if they are not selected.
func (e *exporter) update(r *v1alpha1.HistoryRecord, stream *client.Options) *v1alpha1.Update {
	u := &v1alpha1.Update{Instance: r.Instance, Revision: r.Revision, Time: r.Time, Op: r.Op, Source: r.Source}
	pod := cmp.Or(r.Pod, r.Before)
	if pod == nil || stream.Namespace != "" && pod.Namespace != stream.Namespace || stream.NoMirrorPods && config.IsMirrorPod(pod) ||
		len(stream.Ops) > 0 && !slices.Contains(stream.Ops, r.Op) && !slices.Contains(stream.Ops, v1alpha1.OpAll) {
		return u
	}
	u.Pods = []*v1.Pod{pod}
	if r.Before != nil && r.Pod != nil && r.Op != v1alpha1.OpAdd {
		e.diff.Take(r.Op, r.Before)
	}
	return u
}
