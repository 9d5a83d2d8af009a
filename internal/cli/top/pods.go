package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podtable"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// podKey identifies a pod. Two sources can have pods with the same UID.
type podKey struct {
	source string
	uid    types.UID
}

// pod is a row of the pods.
type pod struct {
	key      podKey
	name     string // namespace/name
	restored bool
	object   *v1.Pod
	search   string
}

// podSet has the pods of the stream.
type podSet struct {
	byKey map[podKey]*pod
	// shown are the pods that match the filter, by name. dirty is true if they are not up to
	// date.
	shown []*pod
	dirty bool
}

// take applies the pods of an update.
func (s *podSet) take(u *v1alpha1.Update) {
	s.dirty = true
	for _, object := range u.Pods {
		key := podKey{u.Source, object.UID}
		if u.Op == v1alpha1.OpRemove {
			delete(s.byKey, key)
			continue
		}
		p := &pod{key: key, name: object.Namespace + "/" + object.Name, restored: u.Restored, object: object}
		p.search = strings.ToLower(p.name + " " + u.Source + " " + podStatus(object))
		s.byKey[key] = p
	}
}

// refresh updates what is shown.
func (s *podSet) refresh(filter []string) {
	if !s.dirty {
		return
	}
	s.dirty = false
	s.shown = s.shown[:0]
	for _, p := range s.byKey {
		if matches(p.search, filter) {
			s.shown = append(s.shown, p)
		}
	}
	slices.SortFunc(s.shown, func(a, b *pod) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.key.source, b.key.source), cmp.Compare(a.key.uid, b.key.uid))
	})
}

// named returns the newest version of the pod with that name, or nil.
func (s *podSet) named(name string) *v1.Pod {
	for _, p := range s.shown {
		if p.name == name {
			return p.object
		}
	}
	for _, p := range s.byKey {
		if p.name == name {
			return p.object
		}
	}
	return nil
}

func podStatus(object *v1.Pod) string {
	return fmt.Sprint(podtable.Cells(object, time.Time{})[2])
}

// podsPane shows the pods.
type podsPane struct{ m *model }

func (p podsPane) title() (name, about string) {
	shown, all := len(p.m.pods.shown), len(p.m.pods.byKey)
	if shown != all {
		return "Pods", fmt.Sprintf("%d of %d", shown, all)
	}
	return "Pods", fmt.Sprint(all)
}

func (p podsPane) columns() []column {
	return []column{{title: "POD", flexible: true}, {title: "READY"}, {title: "STATUS"}, {title: "RESTARTS", optional: true}, {title: "AGE"}, {title: "SOURCE"}, {title: "IP", optional: true}}
}

func (p podsPane) len() int { return len(p.m.pods.shown) }
func (p podsPane) key(i int) string {
	return p.m.pods.shown[i].key.source + " " + string(p.m.pods.shown[i].key.uid)
}

func (p podsPane) row(i int) []cell {
	row := p.m.pods.shown[i]
	cells := podtable.Cells(row.object, p.m.now)
	if row.object.CreationTimestamp.IsZero() {
		cells[4] = p.m.seen(row.object) // a static pod has no time of creation
	}
	text := func(i int) string { return fmt.Sprint(cells[i]) }
	source := row.key.source
	if row.restored {
		source += " (restored)"
	}
	return []cell{{text: row.name}, {text: text(1)}, {text(2), p.m.styles.status(text(2))}, {text: text(3)}, {text(4), p.m.styles.dim}, {text: source}, {text(5), p.m.styles.dim}}
}

func (p podsPane) note() (string, bool) {
	switch {
	case p.m.refused != nil:
		return p.m.refused.Error(), true
	case len(p.m.pods.byKey) > 0:
		return "no pod matches the filter", false
	case !p.m.synced:
		return "waiting for the pods", false
	}
	return "no pods", false
}

func (p podsPane) open(i int) *detail { return p.m.podDetail(p.m.pods.shown[i].name) }

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

// matches reports whether the text has all words of the filter.
func matches(text string, filter []string) bool {
	for _, word := range filter {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
