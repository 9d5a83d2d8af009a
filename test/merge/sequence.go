package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Pod is a pod in short: each field is the index of a value of the real field. Zero is
// the simplest.
type Pod struct {
	Namespace, Name, UID, Image, Tolerations, Labels, Annotations, Deletion, Grace, Status, Generation, Rest int
}

// fields are the fields that change the content of a pod, with the number of their
// values.
var fields = []struct {
	of func(*Pod) *int
	n  int
}{
	{func(p *Pod) *int { return &p.Image }, 3},
	{func(p *Pod) *int { return &p.Tolerations }, 3},
	{func(p *Pod) *int { return &p.Labels }, 4},
	{func(p *Pod) *int { return &p.Annotations }, len(annotations)},
	{func(p *Pod) *int { return &p.Deletion }, 3},
	{func(p *Pod) *int { return &p.Grace }, 3},
	{func(p *Pod) *int { return &p.Status }, 4},
	{func(p *Pod) *int { return &p.Generation }, 2},
	{func(p *Pod) *int { return &p.Rest }, 3},
}

var annotations = []map[string]string{
	nil,
	{},
	{"foreign": "1"},
	{"foreign": "2"},
	{"foreign": "1", "other": "1"},
	{"kubernetes.io/config.mirror": "1"},
	{"kubernetes.io/config.mirror": "2", "foreign": "1"},
	{"kubernetes.io/config.source": "a lie"},
	{"kubernetes.io/config.seen": "a lie", "foreign": "1"},
	{"kubernetes.io/config.hash": "1"},
	{"kubernetes.io/config.hash": "2"},
}

// Object returns a new complete pod.
func (p Pod) Object() *v1.Pod {
	object := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("ns%d", p.Namespace), Name: fmt.Sprintf("pod%d", p.Name), UID: types.UID(fmt.Sprintf("uid%d", p.UID)),
			Generation: int64(p.Generation), ResourceVersion: fmt.Sprint(p.Rest),
		},
		Spec:   v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: fmt.Sprintf("image:%d", p.Image)}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if p.Rest == 2 {
		object.Finalizers, object.ManagedFields = []string{"f"}, []metav1.ManagedFieldsEntry{{Manager: "m"}}
		object.OwnerReferences = []metav1.OwnerReference{{Name: "owner"}}
	}
	object.Spec.Tolerations = [][]v1.Toleration{nil, {}, {{Key: "k", Operator: v1.TolerationOpExists}}}[p.Tolerations]
	object.Labels = []map[string]string{nil, {}, {"a": "1"}, {"a": "2"}}[p.Labels]
	object.Annotations = maps.Clone(annotations[p.Annotations])
	if p.Deletion > 0 {
		object.DeletionTimestamp = &metav1.Time{Time: time.Unix(int64(p.Deletion), 0)}
	}
	if p.Grace > 0 {
		object.DeletionGracePeriodSeconds = new(int64(p.Grace))
	}
	object.Status = []v1.PodStatus{
		{Phase: v1.PodPending},
		{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
		{Phase: v1.PodRunning, Conditions: []v1.PodCondition{}},
		{Phase: v1.PodFailed, Message: "m"},
	}[p.Status]
	return object
}

// Step is a set that a source sends.
type Step struct {
	Source string
	Pods   []Pod
	// Same means that pods that the source sent before keep their pointers.
	Same bool
}

func (s Step) String() string {
	lines := make([]string, len(s.Pods))
	for i, p := range s.Pods {
		lines[i] = fmt.Sprintf("%+v", p)
	}
	return fmt.Sprintf("{Source: %q, Pods: []merge.Pod{%s}, Same: %t}", s.Source, strings.Join(lines, ", "), s.Same)
}

func oneOf(t *rapid.T, n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }

// Draw draws a sequence. Each set is a change of the previous set of its source.
func Draw(t *rapid.T) []Step {
	before := make(map[string][]Pod)
	steps := make([]Step, 1+oneOf(t, 10, "steps"))
	for i := range steps {
		source := []string{"file", "http", "api"}[oneOf(t, 3, "source")]
		pods := slices.Clone(before[source])
		for range oneOf(t, 6, "edits") {
			pods = edit(t, pods)
		}
		before[source] = pods
		steps[i] = Step{Source: source, Pods: slices.Clone(pods), Same: rapid.Bool().Draw(t, "same")}
	}
	return steps
}

// edit changes a set in one way.
func edit(t *rapid.T, pods []Pod) []Pod {
	what := oneOf(t, 12, "edit")
	if len(pods) == 0 || what < 3 {
		p := Pod{Namespace: oneOf(t, 2, "namespace"), Name: oneOf(t, 4, "name"), UID: oneOf(t, 6, "uid")}
		for range oneOf(t, 3, "fields") {
			change(t, &p)
		}
		return append(pods, p)
	}
	i := oneOf(t, len(pods), "which")
	switch what {
	case 3, 4, 5, 6, 7:
		change(t, &pods[i])
	case 8: // remove it
		return slices.Delete(pods, i, i+1)
	case 9: // replace it by another pod with its name
		pods[i].UID = oneOf(t, 6, "uid")
	case 10: // change the order
		j := oneOf(t, len(pods), "other")
		pods[i], pods[j] = pods[j], pods[i]
	case 11:
		switch oneOf(t, 4, "rare") {
		case 0: // duplicate it
			return append(pods, pods[i])
		case 1: // give another pod its UID
			j := oneOf(t, len(pods), "other")
			pods[i].UID = pods[j].UID
		case 2: // rename it
			pods[i].Name = oneOf(t, 4, "name")
		case 3: // remove all
			return nil
		}
	}
	return pods
}

func change(t *rapid.T, p *Pod) {
	field := fields[oneOf(t, len(fields), "field")]
	*field.of(p) = oneOf(t, field.n, "value")
}
