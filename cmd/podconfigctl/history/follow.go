package history

import (
	"context"
	"fmt"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/await"
)

// followPeriod is the period in which --follow reads what is new.
const followPeriod = time.Second

// change identifies a change in the history.
type change struct {
	instance, pod, gap string
	revision           int64
	op                 v1alpha1.Op
}

// newest are the changes that were printed last: those of the newest time, and all gaps. They are
// read again, since a period of the history includes its start.
type newest struct {
	at      time.Time
	changes map[change]bool
}

// isNew reports whether a change was not printed yet, and notes it.
func (n *newest) isNew(r *v1alpha1.HistoryRecord) bool {
	c := change{r.Instance, r.Namespace + "/" + r.Name, r.Gap, r.Revision, r.Op}
	if n.changes[c] || r.Time != nil && r.Time.Before(n.at) {
		return false
	}
	if r.Time != nil && r.Time.After(n.at) {
		n.at = *r.Time
		for old := range n.changes {
			if old.gap == "" {
				delete(n.changes, old)
			}
		}
	}
	n.changes[c] = true
	return true
}

// followHistory prints the history and then each further change, until the context is done. It fails
// only at the start. Later, it reports an error and tries again.
func (r *reader) followHistory(ctx context.Context, p historyPrinter) error {
	seen := &newest{changes: make(map[change]bool)}
	failure := ""
	for first := true; ; first = false {
		for record, err := range r.lines(r.records(ctx), false) {
			switch {
			case ctx.Err() != nil:
				return nil // the command was interrupted
			case err != nil && first:
				return err
			case err != nil && err.Error() != failure:
				failure = err.Error()
				fmt.Fprintf(r.notes, "podconfigctl: %v; trying again\n", err)
			case err != nil || !seen.isNew(record):
			default:
				failure = ""
				if err := p.print(record); err != nil {
					return err
				}
			}
		}
		if err := p.flush(); err != nil {
			return err
		}
		if r.dir == "" {
			r.fallback = "" // the daemon will be back
		}
		if !seen.at.IsZero() {
			r.Since = seen.at.Format(time.RFC3339Nano)
		}
		if await.For(ctx, followPeriod) != nil {
			return nil
		}
	}
}
