package top

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/pkg/client"
)

const (
	// maxHistory is the number of changes of a pod that are shown.
	maxHistory     = 200
	historyTimeout = 20 * time.Second
)

// historyMsg is the answer to a request of the history.
type historyMsg struct {
	request int
	diff    bool
	records []*v1alpha1.HistoryRecord // oldest first
	err     error
}

// requestHistory requests the changes of the pod.
func (d *detail) requestHistory(diff bool) tea.Cmd {
	d.request++
	request, pod, c, ctx := d.request, d.pod, d.m.config.Client, d.m.ctx
	if len(d.lines) == 0 {
		d.set([]span{{"waiting for the history", d.m.styles.dim}})
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, historyTimeout)
		defer cancel()
		msg := historyMsg{request: request, diff: diff}
		for r, err := range c.History(ctx, client.HistoryOptions{Pod: pod, Pods: diff}) {
			if err != nil {
				msg.err = err
				break
			}
			if len(msg.records) == maxHistory {
				copy(msg.records, msg.records[1:])
				msg.records = msg.records[:maxHistory-1]
			}
			msg.records = append(msg.records, r)
		}
		return msg
	}
}

// setHistory shows the changes, newest first. Without a history, it shows the changes since
// the start of the view.
func (d *detail) setHistory(msg historyMsg) {
	if d.active == pageYAML {
		return
	}
	s := d.m.styles
	var lines [][]span
	if msg.err != nil {
		style := s.bad
		if refusal, ok := errors.AsType[*client.RefusedError](msg.err); ok && refusal.Code == http.StatusNotFound {
			style = s.warn // the daemon has no state directory
		}
		lines = append(lines, []span{{clean(msg.err.Error()), style}}, nil, []span{{"Changes since the start of this view:", s.dim}}, nil)
		msg.records = d.m.changesOf(d.pod)
	}
	if len(msg.records) == 0 {
		lines = append(lines, []span{{"no changes", s.dim}})
	}
	for _, r := range slices.Backward(msg.records) {
		lines = append(lines, d.m.recordLines(r, msg.diff)...)
	}
	d.set(lines...)
}

// changesOf returns the changes of a pod that the stream sent.
func (m *model) changesOf(pod string) []*v1alpha1.HistoryRecord {
	var records []*v1alpha1.HistoryRecord
	for _, u := range m.updates.all {
		if u.pod != pod {
			continue
		}
		r := &v1alpha1.HistoryRecord{Time: &u.time, Op: u.op, Source: u.source, Before: u.change.Before, Pod: u.change.After}
		if u.change.Before != nil && u.change.After != nil {
			r.Changes = poddiff.Compare(u.change.Before, u.change.After)
		}
		records = append(records, r)
	}
	return records
}

// recordLines returns the lines of a change.
func (m *model) recordLines(r *v1alpha1.HistoryRecord, diff bool) [][]span {
	s := m.styles
	at := "-"
	if r.Time != nil {
		at = r.Time.Local().Format(time.DateTime)
	}
	if r.Gap != "" {
		return [][]span{{{at + "  ", s.dim}, {"GAP  ", s.warn}, {clean(r.Gap), nil}}}
	}
	head := []span{{at + "  ", s.dim}, {fit(string(r.Op), 9) + "  ", s.op(r.Op)}, {clean(r.Source), nil}}
	if r.File != nil {
		head = append(head, span{"  " + clean(r.File.Path), nil})
	}
	if r.Replaced {
		head = append(head, span{"  replaced", s.dim})
	}
	lines := [][]span{head}
	if !diff {
		for _, change := range r.Changes {
			lines = append(lines, []span{{"  " + clean(change), nil}})
		}
		return lines
	}
	if !r.Replaced { // otherwise the ADD has the difference
		text, err := poddiff.Unified(r.Before, r.Pod)
		if err != nil {
			text = err.Error()
		}
		lines = append(lines, m.diffLines(text)...)
	}
	return append(lines, nil)
}
