package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
)

func (m *model) takeEvents(events eventsMsg) {
	m.touched = make(map[string]bool)
	for _, e := range events {
		switch {
		case e.down != nil:
			m.down = e.down
			continue
		case e.refused != nil:
			m.refused, m.down = e.refused, nil
			continue
		}
		m.down, m.refused, m.owned = nil, nil, e.owned
		if e.restart || e.update.Reset {
			m.reset(e.update)
		}
		m.takeUpdate(e.update)
	}
	m.showPods()
	m.showUpdates()
}

// reset forgets the pods. The present ones follow.
func (m *model) reset(u *v1alpha1.Update) {
	m.stream.Reset()
	clear(m.pods)
	m.synced = false
	if u.Reset {
		m.addUpdate(&update{time: m.timeOf(u), op: "RESET", about: cmp.Or(clean(u.Message), "the present pods follow")})
	}
}

func (m *model) takeUpdate(u *v1alpha1.Update) {
	if u.Op == v1alpha1.OpBookmark {
		m.synced = m.synced || u.InitialSyncComplete
		return
	}
	if u.Revision != 0 {
		m.rates.add(1)
	}
	for _, object := range u.Pods {
		// They are not shown, and can be half of a pod.
		object.ManagedFields = nil //nolint:podwrite // the update was just decoded, and only this model has it
		p := m.newPod(u, object)
		only := m.takeOwners(p, u)
		if m.pods[p.key] = p; u.Op == v1alpha1.OpRemove {
			delete(m.pods, p.key)
		}
		m.touched[p.pod] = true
		change := m.stream.Take(u.Op, object)
		if !only && (u.Revision != 0 || m.synced) {
			m.addUpdate(&update{row: row{pod: p.pod}, time: m.timeOf(u), op: u.Op, source: u.Source, revision: u.Revision, change: change})
		}
	}
}

func (m *model) timeOf(u *v1alpha1.Update) time.Time {
	if u.Time != nil {
		return *u.Time
	}
	return m.now
}

// pod is a pod of the stream. Two sources can have pods with the same UID.
type pod struct {
	row
	object *v1.Pod
	// owners are known if the stream has them, and group is the name of its group then.
	owners []v1alpha1.Owner
	group  string
}

func (m *model) newPod(u *v1alpha1.Update, object *v1.Pod) *pod {
	name, source, s := object.Namespace+"/"+object.Name, u.Source, m.styles
	if u.Restored {
		source += " (restored)"
	}
	return &pod{object: object, row: row{
		key: u.Source + " " + string(object.UID), pod: name,
		search: strings.ToLower(name + " " + u.Source + " " + fmt.Sprint(podfields.Cells(object, time.Time{})[2])),
		cells: func() []cell {
			cells := podfields.Cells(object, m.now)
			if object.CreationTimestamp.IsZero() {
				cells[4] = m.seen(object) // a static pod has no time of creation
			}
			text := func(i int) string { return fmt.Sprint(cells[i]) }
			indent := ""
			if m.owned {
				indent = "  "
			}
			return []cell{{text: indent + name}, {text: text(1)}, {text(2), s.status(text(2))}, {text: text(3)}, {text(4), s.dim}, {text: source}, {text(5), s.dim}}
		},
		open: func() *detail { return m.podDetail(name) },
	}}
}

// showPods shows the pods, by name, and by owner if the stream has the owners.
func (m *model) showPods() {
	rows := make([]*row, 0, len(m.pods))
	for _, p := range m.pods {
		rows = append(rows, &p.row)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Or(strings.Compare(a.pod, b.pod), strings.Compare(a.key, b.key)) })
	if m.owned {
		rows = m.grouped(rows)
	}
	m.panes[panePods].take(rows, m.words())
}

// podNamed returns the newest version of the pod with that name, or nil.
func (m *model) podNamed(name string) *v1.Pod {
	for _, r := range m.panes[panePods].rows {
		if r.pod == name {
			return m.pods[r.key].object
		}
	}
	return nil
}

// seen returns the time since the source delivered the pod first.
func (m *model) seen(object *v1.Pod) string {
	t, err := time.Parse(time.RFC3339Nano, object.Annotations[config.ConfigFirstSeenAnnotationKey])
	if err != nil {
		return "<unknown>"
	}
	return m.since(&t)
}

// status returns the style of a pod's status.
func (s *styles) status(status string) ansi.Style {
	switch status {
	case "Running", "Succeeded", "Completed":
		return s.good
	case "Pending", "ContainerCreating", "PodInitializing", "Terminating", "Unknown", "SchedulingGated", "":
		return s.warn
	}
	if strings.HasPrefix(status, "Init:") && strings.Contains(status, "/") {
		return s.warn
	}
	return s.bad
}

// maxUpdates is the number of changes that are kept. Each keeps two versions of its pod.
const maxUpdates = 1000

// update is one pod of an update, or a reset.
type update struct {
	row
	time     time.Time
	op       v1alpha1.Op
	source   string
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

func (m *model) addUpdate(u *update) {
	m.serial++
	u.key, u.search = strconv.Itoa(m.serial), strings.ToLower(string(u.op)+" "+u.source+" "+u.pod)
	u.cells = func() []cell {
		return []cell{{u.time.Local().Format(time.TimeOnly), m.styles.dim}, {string(u.op), m.styles.op(u.op)}, {text: u.source}, {text: u.pod}, {text: u.describe()}}
	}
	u.open = func() *detail { return m.updateDetail(u) }
	if m.updates = append(m.updates, u); len(m.updates) >= 2*maxUpdates {
		m.updates = slices.Clone(m.updates[len(m.updates)-maxUpdates:])
	}
}

// showUpdates shows the last updates, the newest first.
func (m *model) showUpdates() {
	last := m.updates[max(0, len(m.updates)-maxUpdates):]
	rows := make([]*row, 0, len(last))
	for _, u := range slices.Backward(last) {
		rows = append(rows, &u.row)
	}
	m.panes[paneUpdates].take(rows, m.words())
}

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

// groupOf returns the name of the group of a pod: the top of its owners, with the namespace if it is no node.
func groupOf(namespace string, owners []v1alpha1.Owner) string {
	switch {
	case len(owners) == 0:
		return "no owner"
	case owners[len(owners)-1].Kind == "Node":
		return cli.TopOwner(owners)
	}
	return cli.TopOwner(owners) + " in " + namespace
}

// grouped returns rows of pods by the group of the pod, below a row for each group. The order in a group stays.
func (m *model) grouped(rows []*row) (all []*row) {
	group := func(r *row) string { return m.pods[r.key].group }
	slices.SortStableFunc(rows, func(a, b *row) int { return strings.Compare(group(a), group(b)) })
	for len(rows) > 0 {
		name, n := group(rows[0]), 1
		for n < len(rows) && group(rows[n]) == name {
			n++
		}
		text := "1 pod"
		if n > 1 {
			text = fmt.Sprintf("%d pods", n)
		}
		all = append(all, &row{key: "group " + name, group: true, cells: func() []cell {
			return []cell{{name, m.styles.title}, {}, {text, m.styles.dim}, {}, {}, {}, {}}
		}})
		all, rows = append(all, rows[:n]...), rows[n:]
	}
	return all
}

// takeOwners takes the owners of a pod of an update. It reports whether the update has nothing else.
func (m *model) takeOwners(p *pod, u *v1alpha1.Update) (only bool) {
	if !m.owned {
		return false
	}
	p.owners = u.Owners[string(p.object.UID)]
	p.group = groupOf(p.object.Namespace, p.owners)
	p.search += " " + strings.ToLower(p.group)
	before := m.pods[p.key]
	return u.Op == v1alpha1.OpReconcile && before != nil && !slices.EqualFunc(before.owners, p.owners, v1alpha1.Owner.Equal)
}
