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
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// fill exports the changes after a position from the history of the daemon, which the stream can't resume from. It returns the position
// that it has reached: the same one if the daemon has no history of that instance. The history has no labels to select by.
func (e *exporter) fill(ctx context.Context, from position, emit func(item) bool) position {
	stream := e.Stream()
	if from.Revision == 0 || stream.LabelSelector != "" || stream.FieldSelector != "" || len(stream.Fields) > 0 {
		return from
	}
	convert, oldest := newConverter(e, from), true
	for r, err := range e.client.History(ctx, client.HistoryOptions{Source: stream.Source, Owner: stream.Owner, Pods: true}) {
		if refused, ok := errors.AsType[*client.RefusedError](err); err != nil {
			if !ok || refused.Code != http.StatusNotFound { // there is no state directory
				e.note(fmt.Errorf("reading the history of the daemon: %w", err))
			}
			break
		}
		missing := r.Gap
		switch {
		case oldest && r.Instance != from.Instance:
			return from
		case oldest && r.Revision > from.Revision && missing == "":
			missing = "the history of the daemon begins later"
		}
		oldest = false
		if r.Revision <= convert.at.Revision {
			continue
		}
		if missing != "" && !emit(item{record: gap(convert.at, fmt.Sprintf("changes after revision %d can be missing: %s", convert.at.Revision, missing))}) {
			break
		}
		for _, i := range convert.items(e.update(r, &stream)) {
			if !emit(i) {
				return convert.at
			}
		}
	}
	return convert.at
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
