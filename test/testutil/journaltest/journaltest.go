// Package journaltest builds updates for tests of the journal and its views.
//
//	journaltest.AppendSet(j, journaltest.Update(config.ADD, "a=1", "b=1"), journaltest.Update(config.REMOVE, "c"))
package journaltest

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// Pod returns a pod of the source "file", for example of "web=nginx:1".
func Pod(content string) *v1.Pod { return podtest.Pod(content, podtest.From(config.FileSource)) }

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
