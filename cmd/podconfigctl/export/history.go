package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

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

// accessChanged begins the message of a reset after which other pods are visible: the history does not tell which.
const accessChanged = "the access rules changed"

// fill exports the changes after a position from the history of the daemon, after a reset of the stream. It returns the position that
// it has reached.
func (e *exporter) fill(ctx context.Context, from position, reset *v1alpha1.Update, emit func(item) bool) (position, outcome) {
	stream := e.Stream()
	if from.Revision == 0 || !inHistory(&stream) || strings.HasPrefix(reset.Message, accessChanged) {
		return from, unknown
	}
	to, after, err := e.changes(ctx, from, reset.Instance, &stream, "", emit)
	if to == from && isRefused(err, http.StatusGone) {
		to, after, err = e.changes(ctx, from, reset.Instance, &stream, "the history of the daemon begins later", emit)
	}
	switch {
	case isRefused(err, http.StatusNotFound, http.StatusForbidden): // there is no state directory, or the client may not read it
		return to, unknown
	case err != nil:
		e.note(fmt.Errorf("reading the history of the daemon: %w", err))
		_ = await.For(ctx, retryDaemon)
		return to, exported
	}
	return to, after
}

// changes is fill with the whole history if a reason is given why changes before it are missing.
func (e *exporter) changes(ctx context.Context, from position, instance string, stream *client.Options, before string, emit func(item) bool) (position, outcome, error) {
	opts := client.HistoryOptions{Source: stream.Source, Pods: true}
	if before == "" {
		opts.Instance, opts.After = from.Instance, from.Revision
	}
	convert := newConverter(e, from)
	after := none
	if instance != from.Instance || before != "" { // otherwise, changes were not stored
		after = unknown
	}
	for r, err := range e.client.History(ctx, opts) {
		switch {
		case err != nil:
			return convert.at, unknown, err
		case before != "" && r.Instance != from.Instance:
			return from, unknown, nil
		case r.Revision <= convert.at.Revision:
			if r.Gap != "" { // at the end of the history
				after = unknown
			}
			continue
		}
		var items []item
		if missing := cmp.Or(r.Gap, before); missing != "" {
			e.gaps.Inc()
			items = []item{{record: gap(convert.at, fmt.Sprintf("changes after revision %d can be missing: %s", convert.at.Revision, missing))}}
		}
		before = ""
		items = append(items, convert.items(e.update(r, stream))...)
		convert.at.Revision = r.Revision
		items[len(items)-1].reached = convert.at
		for _, i := range items {
			if !emit(i) {
				return convert.at, exported, nil
			}
		}
	}
	if convert.at != from {
		after = exported
	}
	return convert.at, after, nil
}

// notStored are the operations that are not in the history.
var notStored = []v1alpha1.Op{v1alpha1.OpSync, v1alpha1.OpPLEG, v1alpha1.OpHousekeeping, v1alpha1.OpAll}

// inHistory reports whether the history can select what the stream selects: it has no labels, no fields, not the owners of then, and
// not all operations.
func inHistory(stream *client.Options) bool {
	other := func(op v1alpha1.Op) bool { return slices.Contains(notStored, op) }
	return stream.LabelSelector == "" && stream.FieldSelector == "" && len(stream.Fields) == 0 && stream.Owner == "" &&
		!slices.ContainsFunc(stream.Ops, other)
}

// isRefused reports whether the daemon has answered with one of the codes.
func isRefused(err error, codes ...int) bool {
	refused, ok := errors.AsType[*client.RefusedError](err)
	return ok && slices.Contains(codes, refused.Code)
}

// update returns the update of a record of the history, with the revision that all pods of the update have in the stream. It has no pods
// if they are not selected.
func (e *exporter) update(r *v1alpha1.HistoryRecord, stream *client.Options) *v1alpha1.Update {
	u := &v1alpha1.Update{Instance: r.Instance, Revision: cmp.Or(r.UpdateRevision, r.Revision), Time: r.Time, Op: r.Op, Source: r.Source}
	pod := cmp.Or(r.Pod, r.Before)
	if pod == nil || stream.Namespace != "" && pod.Namespace != stream.Namespace || stream.NoMirrorPods && config.IsMirrorPod(pod) ||
		len(stream.Ops) > 0 && !slices.Contains(stream.Ops, r.Op) {
		return u
	}
	u.Pods = []*v1.Pod{pod}
	if r.Before != nil && r.Pod != nil && r.Op != v1alpha1.OpAdd {
		e.diff.Take(r.Op, r.Before)
	}
	return u
}
