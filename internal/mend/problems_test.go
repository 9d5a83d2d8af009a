package mend

import (
	"cmp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Mirror pods that are missing are a problem of the daemon. Waiting for the node is not, because
// the node may register later.
func TestProblemsOfMirrorPods(t *testing.T) {
	for want, mirrors := range map[string]v1alpha1.MirrorStatus{
		"none":                           {StaticPods: 2, Pods: 1, Waiting: "the apiserver does not have the node"},
		"mirror pods stopped":            {StaticPods: 2, Stopped: &v1alpha1.MirrorStop{Reason: "a kubelet"}},
		"requests for 1 mirror pod fail": {StaticPods: 2, Pods: 1, Problems: make([]v1alpha1.MirrorProblem, 1)},
		"requests for 7 mirror pods fail": {
			StaticPods: 9, Pods: 2, Problems: make([]v1alpha1.MirrorProblem, 3), ProblemsOmitted: 4,
		},
		"mirror pods stopped, requests for 2 mirror pods fail": {
			StaticPods: 2, Stopped: &v1alpha1.MirrorStop{Reason: "a kubelet"}, Problems: make([]v1alpha1.MirrorProblem, 2),
		},
	} {
		t.Run(want, func(t *testing.T) {
			if got := cmp.Or(strings.Join(Problems(&v1alpha1.Status{MirrorPods: &mirrors}), ", "), "none"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A copy that gives a pod is a problem.
func TestProblemsOfCopies(t *testing.T) {
	copied := v1alpha1.Manifest{State: v1alpha1.ManifestAccepted, Reason: "LooksLikeCopy"}
	for want, manifests := range map[string][]v1alpha1.Manifest{
		"": {{State: v1alpha1.ManifestAccepted}},
		"1 manifest that looks like a copy gives a pod": {copied, {State: v1alpha1.ManifestAccepted}},
		"2 manifests that look like copies give pods":   {copied, copied},
	} {
		status := v1alpha1.Status{Sources: []v1alpha1.SourceStatus{{Seen: true, File: &v1alpha1.FileStatus{Manifests: manifests}}}}
		if got := strings.Join(Problems(&status), ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A fault is at its line, and what to do depends on the reason.
func TestManifest(t *testing.T) {
	for want, m := range map[string]v1alpha1.Manifest{
		"correct it in the list at the manifest URL":                                                  {Reason: "Invalid"},
		"correct /m/a.yaml:3, to check it before it is read, run podconfigctl validate /m/a.yaml":     {Path: "/m/a.yaml", Reason: "Invalid", Message: "a.yaml:3: spec: wrong"},
		"correct /m/a b.yaml, to check it before it is read, run podconfigctl validate '/m/a b.yaml'": {Path: "/m/a b.yaml", Reason: "Invalid"},
		"let the user of podconfigd read /m/a.yaml":                                                   {Path: "/m/a.yaml", Reason: "Unreadable"},
		"write a v1 Pod to /m/a.yaml, or remove the file":                                             {Path: "/m/a.yaml", Reason: "Empty"},
		"correct the symbolic link /m/a.yaml, or remove it":                                           {Path: "/m/a.yaml", Reason: "DanglingLink"},
	} {
		t.Run(want, func(t *testing.T) {
			if got := strings.Join(Manifest(&m), ", "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
