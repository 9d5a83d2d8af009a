package merge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Update is an update of either side, for the comparison.
type Update struct {
	Op, Source string
	Pods       []*v1.Pod
}

func (u Update) String() string {
	names := make([]string, len(u.Pods))
	for i, p := range u.Pods {
		names[i] = p.Namespace + "/" + p.Name + "/" + string(p.UID)
	}
	return fmt.Sprintf("%s %s [%s]", u.Op, u.Source, strings.Join(names, " "))
}

// Normalize orders copies of the pods, and removes the time at which they were first seen.
func Normalize(op, source string, pods []*v1.Pod) (Update, error) {
	u := Update{Op: op, Source: source, Pods: make([]*v1.Pod, len(pods))}
	for i, p := range pods {
		p = p.DeepCopy()
		if _, err := time.Parse(time.RFC3339Nano, p.Annotations[config.ConfigFirstSeenAnnotationKey]); err != nil {
			return u, fmt.Errorf("%s of %s: the first-seen annotation: %w", op, p.Name, err)
		}
		delete(p.Annotations, config.ConfigFirstSeenAnnotationKey)
		u.Pods[i] = p
	}
	slices.SortStableFunc(u.Pods, func(a, b *v1.Pod) int {
		return cmp.Or(config.ComparePods(a, b), cmp.Compare(content(a), content(b)))
	})
	return u, nil
}

// content is the pod as JSON. It is the same for all versions of the type: keys are in order, and
// nulls are left out, which some versions write and others do not.
func content(p *v1.Pod) string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		panic(err)
	}
	data, err = json.Marshal(withoutNulls(object))
	if err != nil {
		panic(err)
	}
	return string(data)
}

func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			if member == nil {
				delete(value, key)
			} else {
				value[key] = withoutNulls(member)
			}
		}
	case []any:
		for i, item := range value {
			value[i] = withoutNulls(item)
		}
	}
	return value
}
