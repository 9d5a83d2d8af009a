// Package podtest builds pods and updates for tests of the journal and its views.
package podtest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// Pod returns a pod of the source "file" whose UID is its name. The content is "name" or "name=image".
func Pod(content string) *v1.Pod {
	name, image, _ := strings.Cut(content, "=")
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"image": image},
			Annotations: map[string]string{config.ConfigSourceAnnotationKey: config.FileSource},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}

// Update returns an update of the source "file", with a pod for each content.
func Update(op config.PodOperation, contents ...string) config.PodUpdate {
	u := config.PodUpdate{Op: op, Source: config.FileSource, Pods: []*v1.Pod{}}
	for _, content := range contents {
		u.Pods = append(u.Pods, Pod(content))
	}
	return u
}

// AppendSet appends updates to a journal as one set.
func AppendSet(j interface{ Append(u config.PodUpdate) }, updates ...config.PodUpdate) {
	for i, u := range updates {
		u.More = i < len(updates)-1
		j.Append(u)
	}
}
