package top

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/status"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/story"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/pkg/client"
)

const (
	// maxHistory is the number of changes of a pod that are shown.
	maxHistory  = 200
	loadTimeout = 20 * time.Second
)

// loadedMsg is what the daemon answered for a page of a pod. lines makes the lines to show from it.
type loadedMsg struct {
	detail  *detail
	request int
	lines   func() []string
}

// load asks the daemon for what a page shows. ask runs beside the view, and what it returns runs in the view.
func (d *detail) load(what string, ask func(ctx context.Context, c *client.Client) func() []string) tea.Cmd {
	d.request++
	d.loading = true
	request, c, ctx := d.request, d.m.config.Client, d.m.ctx
	if len(d.lines) == 0 {
		d.set(d.m.styles.dim.Styled("waiting for " + what))
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		return loadedMsg{d, request, ask(ctx, c)}
	}
}

// loadHistory shows the changes of the pod, newest first, with the differences of its manifests if diff.
func (d *detail) loadHistory(diff bool) tea.Cmd {
	return d.load("the history", func(ctx context.Context, c *client.Client) func() []string {
		var records []*v1alpha1.HistoryRecord
		for r, err := range c.History(ctx, client.HistoryOptions{Pod: d.pod, Pods: diff, Newest: true}) {
			if err != nil {
				return func() []string { return d.seenLines(err, diff) }
			}
			if records = append(records, r); len(records) == maxHistory {
				break
			}
		}
		return func() []string { return d.historyLines(records, diff) }
	})
}

// seenLines returns the lines of the changes since the start of the view, and why there are no others.
func (d *detail) seenLines(err error, diff bool) []string {
	s := d.m.styles
	style := s.bad
	if refusal, ok := errors.AsType[*client.RefusedError](err); ok && refusal.Code == http.StatusNotFound {
		style = s.warn // the daemon has no state directory
	}
	lines := []string{style.Styled(clean(err.Error())), "", s.dim.Styled("Changes since the start of this view:"), ""}
	return append(lines, d.historyLines(d.m.changesOf(d.pod), diff)...)
}

// historyLines returns the lines of changes.
func (d *detail) historyLines(records []*v1alpha1.HistoryRecord, diff bool) (lines []string) {
	if len(records) == 0 {
		return []string{d.m.styles.dim.Styled("no changes")}
	}
	for _, r := range records {
		if !r.Replaced { // the ADD has the difference
			lines = append(lines, d.m.recordLines(r, diff)...)
		}
	}
	return lines
}

// loadWhy shows why the pod runs or not, and what to do, as "podconfigctl status POD" prints it.
func (d *detail) loadWhy() tea.Cmd {
	return d.load("the status of the pod", func(ctx context.Context, c *client.Client) func() []string {
		told, err := story.Ask(ctx, c, d.pod)
		if err != nil {
			return func() []string { return []string{d.m.styles.bad.Styled(clean(err.Error()))} }
		}
		var lines []string
		for text, code := range status.StoryLines(told) {
			var style ansi.Style
			if code != "" {
				style = ansi.Style{code}
			}
			lines = append(lines, style.Styled(clean(text)))
		}
		return func() []string { return lines }
	})
}

// changesOf returns the changes of a pod that the stream sent, newest first.
func (m *model) changesOf(pod string) []*v1alpha1.HistoryRecord {
	var records []*v1alpha1.HistoryRecord
	for _, u := range slices.Backward(m.updates) {
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
func (m *model) recordLines(r *v1alpha1.HistoryRecord, diff bool) []string {
	s := m.styles
	at := "-"
	if r.Time != nil {
		at = r.Time.Local().Format(time.DateTime)
	}
	if r.Gap != "" {
		return []string{s.dim.Styled(at+"  ") + s.warn.Styled("GAP  ") + clean(r.Gap)}
	}
	head := s.dim.Styled(at+"  ") + s.op(r.Op).Styled(fit(string(r.Op), 9)+"  ") + clean(r.Source)
	if r.File != nil {
		head += "  " + clean(r.File.Path)
	}
	lines := []string{head}
	if !diff {
		for _, change := range r.Changes {
			lines = append(lines, "  "+clean(change))
		}
		return lines
	}
	text, err := poddiff.Unified(r.Before, r.Pod)
	if err != nil {
		text = err.Error()
	}
	return append(append(lines, m.diffLines(text)...), "")
}
