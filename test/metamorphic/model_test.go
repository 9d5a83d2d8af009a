package metamorphic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

var sourceNames = []string{"api", "file", "http"}

// pod is a version of a pod. Each field is in another part of the object: the merge compares the parts,
// and the access rules hide some of them.
type pod struct {
	source string
	// n gives the UID, and with it the name and the namespace. Pods 5 apart have the same name.
	n                                 int
	app, image, secret, note, message string
	deleted                           bool
}

func (p pod) uid() string { return fmt.Sprintf("%s-%d", p.source, p.n) }

// name is unique among sources: other tests cover sources that share a name.
func (p pod) name() string { return fmt.Sprintf("%s-n%d", p.source, p.n%5) }

// mirror is not a field: for the merge, as for the kubelet, the annotation of a UID does not change.
func (p pod) mirror() bool { return p.source == "api" && p.n%3 == 0 }

func (p pod) object() *v1.Pod {
	o := podtest.Pod(p.name()+"="+p.image, podtest.UID(p.uid()), podtest.Label("app", p.app), podtest.Annotation("note", p.note))
	o.Spec.Containers[0].Env = []v1.EnvVar{{Name: "SECRET", Value: p.secret}}
	o.Status = v1.PodStatus{Phase: v1.PodRunning, Message: p.message}
	delete(o.Labels, "image")
	if p.deleted {
		o.DeletionTimestamp = new(metav1.NewTime(time.Unix(1_700_000_000, 0)))
	}
	if p.mirror() {
		podtest.Annotation(v1.MirrorPodAnnotationKey, "hash")(o)
	}
	return o
}

// show returns what a subscriber of all fields must see of the pod at a level.
func (p pod) show(level access.Level) string {
	seen := p
	switch level {
	case access.Full:
	case access.Redacted:
		seen.secret, seen.note = "", ""
	case access.Metadata:
		seen.secret, seen.note, seen.image, seen.message = "", "", "", ""
	case access.None:
	}
	return fmt.Sprintf("%s/%s app=%s image=%s secret=%s note=%s message=%s deleted=%t", p.source, p.name(), p.app, seen.image, seen.secret, seen.note, seen.message, p.deleted)
}

// showObject is show for what a subscriber got.
func showObject(source string, o *v1.Pod) string {
	var image, secret string
	if len(o.Spec.Containers) > 0 {
		image = o.Spec.Containers[0].Image
		if env := o.Spec.Containers[0].Env; len(env) > 0 {
			secret = env[0].Value
		}
	}
	return fmt.Sprintf("%s/%s app=%s image=%s secret=%s note=%s message=%s deleted=%t", source, o.Name, o.Labels["app"], image, secret,
		o.Annotations["note"], o.Status.Message, o.DeletionTimestamp != nil)
}

// model is what podconfigd must show.
type model struct {
	// sets are the current sets of the sources that delivered one.
	sets map[string][]pod
	// rules are the access rules; nil shows everything.
	rules []access.Rule
	// earlier has the states that were current, for restarts that lose what could not be stored.
	earlier map[string]bool
}

func newModel() *model {
	m := &model{sets: make(map[string][]pod), earlier: make(map[string]bool)}
	m.remember()
	return m
}

// take takes a set. Of pods with the same name, the first counts.
func (m *model) take(source string, set []pod) {
	var names []string
	m.sets[source] = slices.DeleteFunc(slices.Clone(set), func(p pod) bool {
		known := slices.Contains(names, p.name())
		names = append(names, p.name())
		return known
	})
	m.remember()
}

func (m *model) remember() { m.earlier[show(m.view(nil, view.Selector{}, false))] = true }

// level returns what a subject sees of a pod: the level of the first rule that matches.
func (m *model) level(uid *uint32, p pod) access.Level {
	if m.rules == nil || uid == nil {
		return access.Full
	}
	for _, r := range m.rules {
		if (len(r.UIDs) == 0 || slices.Contains(r.UIDs, *uid)) && (len(r.Sources) == 0 || slices.Contains(r.Sources, p.source)) &&
			(r.LabelSelector == nil || r.LabelSelector.Matches(labels.Set{"app": p.app})) {
			return r.View
		}
	}
	return access.None
}

// view returns what a subscriber holds, by source and UID. labelsOnly is for one that requests only these.
func (m *model) view(uid *uint32, s view.Selector, labelsOnly bool) map[string]string {
	held := make(map[string]string)
	for _, set := range m.sets {
		for _, p := range set {
			level := m.level(uid, p)
			if level == access.None || s.Source != "" && s.Source != p.source || s.NoMirrorPods && p.mirror() ||
				s.Labels != nil && !s.Labels.Matches(labels.Set{"app": p.app}) {
				continue
			}
			if labelsOnly {
				p, level = pod{source: p.source, n: p.n, app: p.app}, access.Full
			}
			held[p.uid()] = p.show(level)
		}
	}
	return held
}

func show(held map[string]string) string {
	return strings.Join(slices.Sorted(maps.Values(held)), "\n")
}

// change returns the next set of a source: pods are added, changed in one field, and removed.
func (m *model) change(r *rand.Rand, source string) (set []pod) {
	value := func() string { return fmt.Sprint(r.IntN(4)) }
	for _, p := range m.sets[source] {
		switch r.IntN(12) {
		case 0, 1:
			continue
		case 2:
			p.app = []string{"a", "b", "c"}[r.IntN(3)]
		case 3:
			p.image = value()
		case 4:
			p.secret = value()
		case 5:
			p.note = value()
		case 6, 7:
			p.message = value()
		case 8:
			p.deleted = true
		}
		set = append(set, p)
	}
	for range r.IntN(4) {
		p := pod{
			source: source, n: r.IntN(12), app: []string{"a", "b", "c"}[r.IntN(3)], image: value(), secret: value(), note: value(), message: value(),
		}
		if !slices.ContainsFunc(set, func(other pod) bool { return other.n == p.n }) {
			set = append(set, p)
		}
	}
	return set
}

// randomRules returns access rules; nil for none.
func randomRules(r *rand.Rand) (rules []access.Rule) {
	for range r.IntN(4) {
		rule := access.Rule{View: access.Level(r.IntN(int(access.Full) + 1))}
		if r.IntN(2) == 0 {
			rule.UIDs = []uint32{uint32(1000 + r.IntN(2))}
		}
		switch r.IntN(4) {
		case 0:
			rule.Sources = []string{sourceNames[r.IntN(3)]}
		case 1:
			rule.LabelSelector = labels.SelectorFromSet(labels.Set{"app": []string{"a", "b", "c"}[r.IntN(3)]})
		}
		rules = append(rules, rule)
	}
	return rules
}
