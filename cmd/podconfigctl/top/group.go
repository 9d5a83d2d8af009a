package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/cli"
)

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
