package http

import (
	"context"
	"fmt"
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// refusals are the verdicts on items without a pod, up to the number that is shown.
type refusals struct{ sources.Verdicts }

func (r *refusals) reject(place string, pod podKey, fault *manifest.Error, lines *v1alpha1.ManifestFault) {
	r.Add(v1alpha1.Manifest{
		Path: place, State: v1alpha1.ManifestRejected, Namespace: pod.namespace, Name: pod.name,
		Reason: string(fault.Reason), Message: fault.Error(), Fault: lines,
	})
}

func (r *refusals) shadow(place string, pod podKey, by string) {
	r.Add(v1alpha1.Manifest{
		Path: place, State: v1alpha1.ManifestShadowed, Namespace: pod.namespace, Name: pod.name,
		Reason: sources.ReasonDuplicate, Message: by,
	})
}

// verdicts returns the verdicts on all pods and items.
func (s *podSet) verdicts() *sources.Verdicts {
	all, counting := &sources.Verdicts{}, s.counting()
	for _, key := range s.keys() {
		state := s.pods[key]
		v := v1alpha1.Manifest{
			State: v1alpha1.ManifestAccepted, Namespace: key.namespace, Name: state.pod.Name, UID: string(state.pod.UID),
		}
		for _, warning := range state.warnings {
			v.Warnings = append(v.Warnings, warning.In(""))
		}
		switch first := counting[state.pod.UID]; {
		case first != key:
			v.State, v.Reason, v.Message = v1alpha1.ManifestShadowed, sources.ReasonDuplicate, fmt.Sprintf("the pod's UID is taken by %s", first)
		case state.fault != nil:
			v.State, v.Reason, v.Message = v1alpha1.ManifestHeld, string(state.fault.Reason), state.fault.Error()+"; its last good pod is kept"
			v.Fault = state.lines
		case !state.present && s.unusable:
			v.State, v.Reason, v.Message = v1alpha1.ManifestHeld, "Missing", "not in the answer, which has no valid pod"
		case !state.present:
			v.State, v.Reason, v.Message = v1alpha1.ManifestHeld, "Missing", "not in the list, which has an item whose name can't be read"
		}
		all.Add(v)
	}
	all.Merge(&s.refused.Verdicts)
	return all
}

// judge records the verdicts, and logs the new ones.
func (b *board) judge(ctx context.Context, verdicts *sources.Verdicts) {
	shown, omitted := verdicts.Shown(), verdicts.Omitted()
	for _, state := range v1alpha1.ManifestStates() {
		b.manifests.WithLabelValues(string(state)).Set(float64(verdicts.Count(state)))
	}
	var before []v1alpha1.Manifest
	b.Update(func(status *v1alpha1.SourceStatus) {
		before, status.HTTP.Manifests = status.HTTP.Manifests, shown
		status.HTTP.ManifestsOmitted = omitted
	})
	type subject struct{ path, namespace, name string }
	old := make(map[subject]*v1alpha1.Manifest, len(before))
	for i := range before {
		old[subject{before[i].Path, before[i].Namespace, before[i].Name}] = &before[i]
	}
	for i := range shown {
		v := &shown[i]
		if was := old[subject{v.Path, v.Namespace, v.Name}]; was == nil || was.State != v.State || was.Message != v.Message || !slices.Equal(was.Warnings, v.Warnings) {
			b.reporter.Report(ctx, *v, was)
		}
	}
	for state, n := range omitted {
		if state != v1alpha1.ManifestAccepted {
			b.reporter.Skip(n)
		}
	}
	b.reporter.Flush(ctx)
}
