package story

import (
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Mirror pods that are missing are a problem of the daemon. Waiting for the node is not, because
// the node may register later.
func TestProblemsOfMirrorPods(t *testing.T) {
	for want, mirrors := range map[string]v1alpha1.MirrorStatus{
		"":                               {StaticPods: 2, Pods: 1, Waiting: "the apiserver does not have the node"},
		"mirror pods stopped":            {StaticPods: 2, Stopped: &v1alpha1.MirrorStop{Reason: "a kubelet"}},
		"requests for 1 mirror pod fail": {StaticPods: 2, Pods: 1, Problems: make([]v1alpha1.MirrorProblem, 1)},
		"requests for 7 mirror pods fail": {
			StaticPods: 9, Pods: 2, Problems: make([]v1alpha1.MirrorProblem, 3), ProblemsOmitted: 4,
		},
		"mirror pods stopped, requests for 2 mirror pods fail": {
			StaticPods: 2, Stopped: &v1alpha1.MirrorStop{Reason: "a kubelet"}, Problems: make([]v1alpha1.MirrorProblem, 2),
		},
	} {
		if got := strings.Join(Problems(&v1alpha1.Status{MirrorPods: &mirrors}), ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
