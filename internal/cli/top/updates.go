package top

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

// maxUpdates is the number of changes that are kept. Each keeps two versions of its pod.
const maxUpdates = 1000

// update is a row of the updates: one pod of an update, or a reset.
type update struct {
	number   int
	time     time.Time
	op       v1alpha1.Op
	source   string
	pod      string // namespace/name
	revision int64
	change   poddiff.Change
	// about describes the change. It is empty until it is drawn, because a comparison costs
	// more than all else.
	about string
}

func (u *update) describe() string {
	if u.about == "" {
		u.about = u.change.String()
	}
	return u.about
}

// updateLog has the last updates.
type updateLog struct {
	next  int
	all   []*update // oldest first
	shown []*update // those that match the filter, newest first
	dirty bool
}

func (l *updateLog) add(u *update) {
	l.next++
	u.number = l.next
	l.dirty = true
	l.all = append(l.all, u)
	if len(l.all) >= 2*maxUpdates {
		l.all = append([]*update(nil), l.all[len(l.all)-maxUpdates:]...)
	}
}

func (l *updateLog) refresh(filter []string) {
	if !l.dirty {
		return
	}
	l.dirty = false
	l.shown = l.shown[:0]
	for i := len(l.all) - 1; i >= 0 && len(l.shown) < maxUpdates; i-- {
		u := l.all[i]
		if len(filter) == 0 || matches(strings.ToLower(string(u.op)+" "+u.source+" "+u.pod), filter) {
			l.shown = append(l.shown, u)
		}
	}
}

// updatesPane shows the last updates.
type updatesPane struct{ m *model }

func (p updatesPane) title() (name, about string) { return "Updates", "" }

func (p updatesPane) columns() []column {
	return []column{{title: "TIME"}, {title: "OP"}, {title: "SOURCE", optional: true}, {title: "POD", flexible: true}, {title: "CHANGED", flexible: true}}
}

func (p updatesPane) len() int         { return len(p.m.updates.shown) }
func (p updatesPane) key(i int) string { return p.m.updates.shown[i].key() }

func (p updatesPane) row(i int) []cell {
	u := p.m.updates.shown[i]
	return []cell{
		{u.time.Local().Format(time.TimeOnly), p.m.styles.dim}, {string(u.op), p.m.styles.op(u.op)}, {text: u.source}, {text: u.pod}, {text: u.describe()},
	}
}

func (p updatesPane) note() (string, bool) {
	switch {
	case p.m.refused != nil:
		return p.m.refused.Error(), true
	case len(p.m.updates.all) > 0:
		return "no update matches the filter", false
	}
	return "no updates yet", false
}

func (p updatesPane) open(i int) *detail { return p.m.updateDetail(p.m.updates.shown[i]) }

// op returns the style of an operation.
func (s *styles) op(op v1alpha1.Op) ansi.Style {
	switch op {
	case v1alpha1.OpAdd:
		return s.good
	case v1alpha1.OpRemove, v1alpha1.OpDelete:
		return s.bad
	case v1alpha1.OpReconcile:
		return s.dim
	}
	return s.accent
}

func (u *update) key() string { return strconv.Itoa(u.number) }
