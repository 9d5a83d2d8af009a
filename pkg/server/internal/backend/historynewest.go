package backend

import (
	"context"
	"fmt"
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/server/internal/params"
)

// newest are the last records that were read, as they are sent. Those of one revision stay together: a
// gap at the end has the revision of the record before it.
type newest[T any] struct {
	records []newestRecord[T]
	size    int
	// more is true if older records were left out.
	more bool
}

type newestRecord[T any] struct {
	at      history.Position
	encoded T
	size    int
}

// add adds a record, and leaves out the oldest ones that are too many.
func (n *newest[T]) add(r newestRecord[T], limit int) {
	if i := len(n.records) - 1; i >= 0 && r.at.Revision <= n.records[i].at.Revision {
		r.at = n.records[i].at
	}
	n.records, n.size = append(n.records, r), n.size+r.size
	for len(n.records) > limit || n.size > historyPageBytes {
		oldest := n.records[0].at.Revision
		if oldest == r.at.Revision {
			return // the page has one revision
		}
		for n.records[0].at.Revision == oldest {
			n.size -= n.records[0].size
			n.records[0] = newestRecord[T]{} // the slice moves on
			n.records = n.records[1:]
		}
		n.more = true
	}
}

// newestPage reads a page with the newest record first. The history can only be read from its start, so
// each page costs as much as all older records. It holds one page.
func newestPage[T any](ctx context.Context, b *Backend, query *params.HistoryQuery, encode func(*v1alpha1.HistoryRecord) (T, int, error)) (page []T, next string, err error) {
	var last newest[T]
	for record, err := range b.History(query.Opts) {
		if err := hideIn(ctx, query, record, err); err != nil {
			return nil, "", err
		}
		if record.Revision == 0 && query.Opts.Before > 0 {
			continue // a gap at the end is on the first page
		}
		encoded, size, err := encode(record)
		if err != nil {
			return nil, "", fmt.Errorf("encoding the change of revision %d: %w", record.Revision, err)
		}
		last.add(newestRecord[T]{history.Position{Instance: record.Instance, Revision: record.Revision}, encoded, size}, query.Limit)
	}
	for _, r := range slices.Backward(last.records) {
		page = append(page, r.encoded)
	}
	if last.more {
		next = query.Token(last.records[0].at)
	}
	return page, next, nil
}
