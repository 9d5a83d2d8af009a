// Package mend says what is wrong with a daemon, its sources and manifests, and what to do about it:
//
//	fmt.Println(mend.Problems(status)) // [2 manifests Rejected source http degraded]
//	fmt.Println(mend.Manifest(manifest)) // [correct web.yaml:7 ...]
package mend

import (
	"fmt"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Problems lists what is wrong with a daemon: with its sources and manifests, the state directory, the container runtime, the
// kubelet and the mirror pods. Without problems, the daemon is healthy. The state of pods in the runtime does not count.
func Problems(status *v1alpha1.Status) (problems []string) {
	states, copies := make(map[v1alpha1.ManifestState]int), 0
	for i := range status.Sources {
		shown, omitted := Manifests(&status.Sources[i])
		for j := range shown {
			states[shown[j].State]++
			if shown[j].State == v1alpha1.ManifestAccepted && shown[j].Reason == "LooksLikeCopy" {
				copies++
			}
		}
		for state, n := range omitted {
			states[state] += n
		}
	}
	for _, state := range []v1alpha1.ManifestState{v1alpha1.ManifestRejected, v1alpha1.ManifestHeld, v1alpha1.ManifestShadowed} {
		switch n := states[state]; n {
		case 0:
		case 1:
			problems = append(problems, "1 manifest "+string(state))
		default:
			problems = append(problems, fmt.Sprintf("%d manifests %s", n, state))
		}
	}
	problems = append(problems, copyProblems(copies)...)
	for i := range status.Sources {
		switch source := &status.Sources[i]; {
		case source.Degraded:
			problems = append(problems, "source "+source.Name+" degraded")
		case !source.Seen:
			problems = append(problems, "source "+source.Name+" has not delivered its pods yet")
		}
	}
	if status.State != nil {
		problems = append(problems, stateProblems(status.State)...)
	}
	if status.Runtime != nil {
		problems = append(problems, runtimeProblems(status.Runtime)...)
	}
	if status.Kubelet != nil {
		problems = append(problems, kubeletProblems(status.Kubelet)...)
	}
	if status.MirrorPods != nil {
		problems = append(problems, mirrorProblems(status.MirrorPods)...)
	}
	return problems
}

// copyProblems says that manifests give pods, although their names look like those of copies.
func copyProblems(n int) []string {
	switch n {
	case 0:
		return nil
	case 1:
		return []string{"1 manifest that looks like a copy gives a pod"}
	}
	return []string{fmt.Sprintf("%d manifests that look like copies give pods", n)}
}

// runtimeProblems lists what is wrong with the container runtime.
func runtimeProblems(r *v1alpha1.RuntimeStatus) (problems []string) {
	if !r.Healthy {
		problems = append(problems, "container runtime unhealthy")
	}
	if r.Uninspected > 0 && r.UninspectedSince != nil {
		pods := "1 pod"
		if r.Uninspected > 1 {
			pods = fmt.Sprintf("%d pods", r.Uninspected)
		}
		problems = append(problems, fmt.Sprintf("%s can't be inspected since %s", pods, r.UninspectedSince.Local().Format(time.DateTime)))
	}
	return problems
}

// kubeletProblems lists how podconfigd and the kubelet disagree.
func kubeletProblems(k *v1alpha1.KubeletStatus) (problems []string) {
	switch {
	case k.OtherUIDs == 1:
		problems = append(problems, "1 static pod runs under another UID")
	case k.OtherUIDs > 1:
		problems = append(problems, fmt.Sprintf("%d static pods run under other UIDs", k.OtherUIDs))
	}
	if k.PodsAPI != nil && !k.PodsAPI.Connected {
		problems = append(problems, "the kubelet's Pods API does not answer")
	}
	return problems
}

// stateProblems lists what is wrong with the state directory.
func stateProblems(s *v1alpha1.StateStatus) []string {
	switch {
	case !s.Stored:
		return []string{"updates are not stored"}
	case s.LastError != "":
		return []string{"a pod is not stored"}
	}
	return nil
}

// mirrorProblems lists what is wrong with the mirror pods. Waiting for the Node is no problem: it may register later.
func mirrorProblems(m *v1alpha1.MirrorStatus) (problems []string) {
	if m.Stopped != nil {
		problems = append(problems, "mirror pods stopped")
	}
	switch n := len(m.Problems) + m.ProblemsOmitted; n {
	case 0:
	case 1:
		problems = append(problems, "requests for 1 mirror pod fail")
	default:
		problems = append(problems, fmt.Sprintf("requests for %d mirror pods fail", n))
	}
	return problems
}

// Manifests returns the verdicts that the status of a source lists, and by state the number of those that it omits.
func Manifests(s *v1alpha1.SourceStatus) (shown []v1alpha1.Manifest, omitted map[v1alpha1.ManifestState]int) {
	switch {
	case s.File != nil:
		return s.File.Manifests, s.File.ManifestsOmitted
	case s.HTTP != nil:
		return s.HTTP.Manifests, s.HTTP.ManifestsOmitted
	}
	return nil, nil
}
