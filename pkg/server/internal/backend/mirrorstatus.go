package backend

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// mirrorStatusFor returns the status of mirror pods without what the client may not see. pods
// are those that it sees.
func mirrorStatusFor(all *v1alpha1.MirrorStatus, grant *access.Grant, pods []*journal.Pod) *v1alpha1.MirrorStatus {
	some := &v1alpha1.MirrorStatus{Waiting: hide(all.Waiting)}
	levels := make(map[types.NamespacedName]access.Level)
	for _, p := range pods {
		name := types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
		levels[name] = max(levels[name], grant.Of(p.Source, p.Object).Level())
		switch _, ok := p.Object.Annotations[config.OwnMirrorAnnotationKey]; {
		case p.Source != config.ApiserverSource:
			some.StaticPods++
		case ok: // one of the mirror pods of podconfigd
			some.Pods++
		}
	}
	if all.Stopped != nil { // the reason names a pod
		some.Stopped = &v1alpha1.MirrorStop{Reason: hiddenError, Since: all.Stopped.Since, Until: all.Stopped.Until}
	}
	for _, problem := range all.Problems {
		level := levels[types.NamespacedName{Namespace: problem.Namespace, Name: problem.Name}]
		if level == access.None {
			continue
		}
		seen := v1alpha1.MirrorProblem{Namespace: problem.Namespace, Name: problem.Name, Message: hiddenError, Since: problem.Since}
		if level == access.Full {
			seen.Message = problem.Message
		}
		some.Problems = append(some.Problems, seen)
	}
	return some
}
