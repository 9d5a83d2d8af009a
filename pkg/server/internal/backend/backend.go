// Package backend has what the requests of all protocols are answered from, as the access rules allow.
package backend

import (
	"context"
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

// Backend has what the requests of all protocols are answered from. Status, Runtime, Lookup, History,
// Resync and Release are those of server.Options.
type Backend struct {
	Gate    *view.Gate
	Limits  *conn.Limiter
	Status  func() v1alpha1.Status
	Runtime func() v1alpha1.RuntimePods
	Lookup  *lookup.Lookup
	History func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error]
	Resync  func(ctx context.Context, namespace, name string) error
	Release func(ctx context.Context, source string, most *int) error
	// Frames counts the frames sent to subscribers, Denials the requests refused by the access rules.
	Frames, Denials prometheus.Counter

	denied denied
	// statuses makes answers with the status.
	statuses *answers
	// historyReads has an element for each page of history that is being read.
	historyReads chan struct{}
}

// New returns a backend without optional parts.
func New(gate *view.Gate, limits *conn.Limiter, status func() v1alpha1.Status, frames, denials prometheus.Counter) *Backend {
	return &Backend{
		Gate: gate, Limits: limits, Status: status, Frames: frames, Denials: denials,
		statuses: newAnswers(), historyReads: make(chan struct{}, maxHistoryReads),
	}
}
