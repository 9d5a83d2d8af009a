// Package mend says what is wrong with a daemon, its sources and manifests, and what to do about it:
//
//	fmt.Println(mend.Problems(status)) // [2 manifests Rejected source http degraded]
//	fmt.Println(mend.Manifest(manifest)) // [correct web.yaml:7 ...]
package mend

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// Manifest says what to do about a manifest that is neither accepted nor ignored.
func Manifest(m *v1alpha1.Manifest) []string {
	path := m.Path
	if m.State == v1alpha1.ManifestIgnored {
		return nil
	}
	if path == "" {
		return []string{"correct it in the list at the manifest URL"}
	}
	place := path
	if line := Line(m.Message); line > 0 {
		place = fmt.Sprintf("%s:%d", path, line)
	}
	check := "to check it before it is read, run podconfigctl validate " + printable.ShellWord(path)
	switch m.Reason {
	case "Empty":
		return []string{"write a v1 Pod to " + path + ", or remove the file"}
	case "TooLarge":
		return []string{"make " + path + " smaller: the limits of a pod are 1.5 MiB as JSON and 100,000 values"}
	case "NotAPod":
		return []string{"put one v1 Pod into " + path + ", and other objects into the apiserver", check}
	case "Forbidden":
		return []string{"remove the reference at " + place + ": a static pod can't refer to API objects", check}
	case "Duplicate":
		return []string{
			"rename the pod in " + path + ", or remove one of the manifests",
			"if it is a copy, let its name begin with a dot, or set --ignore-manifests of podconfigd",
		}
	case "LooksLikeCopy":
		return []string{"if " + path + " is no manifest, remove it, let its name begin with a dot, or set --ignore-manifests of podconfigd"}
	case "IsDirectory", "NotRegular":
		return []string{"replace " + path + " by a regular file, or remove it"}
	case "DanglingLink", "CyclicLink":
		return []string{"correct the symbolic link " + path + ", or remove it"}
	case "Unreadable":
		return []string{"let the user of podconfigd read " + path}
	}
	return []string{"correct " + place, check}
}

// ReleaseCommand returns the command that releases a held set, unless a newer one removes more pods.
func ReleaseCommand(source string, removes int) string {
	return fmt.Sprintf("podconfigctl release %s --removes=%d", source, removes)
}

// Source says what to do about a degraded source.
func Source(s *v1alpha1.SourceStatus) []string {
	switch {
	case s.Held != nil:
		return []string{"to apply the set that is held, run " + ReleaseCommand(s.Name, s.Held.Removes) + "; otherwise put back what is missing in the source"}
	case !s.Degraded:
		return nil
	case s.File != nil:
		return []string{"make " + s.File.Path + " readable again; an empty directory removes the pods"}
	case s.HTTP != nil:
		return []string{"check what the server answers at " + s.HTTP.URL}
	case s.API != nil:
		return []string{"check the apiserver " + s.API.Server + ", and the credentials in --kubeconfig of podconfigd"}
	}
	return nil
}

// position matches the file and the line at the start of the message of a fault.
var position = regexp.MustCompile(`^[^:]*:([0-9]+): `)

// Line returns the line in the message of a fault; 0 if there is none.
func Line(message string) int {
	found := position.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	line, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return line
}

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
		problems = append(problems, "the kubelet's Pods API gives no status")
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
