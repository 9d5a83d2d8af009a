package http

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// subsystem is part of the names of the metrics.
const subsystem = "http_source"

// board has the status.
type board struct {
	*sources.Board
	reporter  *sources.Reporter
	manifests *prometheus.GaugeVec
}

func newBoard(name, url string, reg prometheus.Registerer) *board {
	return &board{
		Board: sources.NewBoard(v1alpha1.SourceStatus{
			Name: name, HTTP: &v1alpha1.HTTPStatus{URL: url, Manifests: []v1alpha1.Manifest{}},
		}, reg, subsystem, "1 if the URL can't be read. The last pods stay."),
		reporter:  sources.NewReporter(),
		manifests: metric.In(reg, subsystem).GaugeVec("manifests", "Pods of the URL, and items without a pod, by state.", "state"),
	}
}

// succeeded records that the server gave a good answer.
func (b *board) succeeded(ctx context.Context) {
	now := time.Now()
	b.Update(func(status *v1alpha1.SourceStatus) { status.HTTP.LastSuccess = &now })
	b.Succeeded(ctx, "The manifest URL can be read again")
}

// refusals are the verdicts on items without a pod, up to the number that is shown.
type refusals struct{ sources.Verdicts }

func (r *refusals) reject(place string, pod manifestName, fault *manifest.Error, lines *v1alpha1.ManifestFault) {
	r.Add(v1alpha1.Manifest{
		Path: place, State: v1alpha1.ManifestRejected, Namespace: pod.namespace, Name: pod.name,
		Reason: string(fault.Reason), Message: fault.Error(), Fault: lines,
	})
}

func (r *refusals) shadow(place string, pod manifestName, by string) {
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

// attributeURL is the name of an attribute: a digest of the URL of the pods. It is stored on disk, so it must not change.
const attributeURL = "url"

// attributes returns what is stored with a set, without secrets.
func (s *Source) attributes() map[string]string {
	return map[string]string{attributeURL: digest(s.url)}
}

// restored returns the pods from before a restart. Pods of another URL are not returned: they have other UIDs.
func (s *Source) restored(r sources.Restored) []*v1.Pod {
	if r.Attributes[attributeURL] != digest(s.url) {
		return nil
	}
	return r.Pods
}

// digest returns a digest of the texts. The UIDs of the pods are digests of the URL too.
func digest(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return hex.EncodeToString(sum[:])
}

// restore adds the pods from before a restart, as if they were in the last answer.
func (s *podSet) restore(pods []*v1.Pod) {
	for _, pod := range pods {
		name := strings.TrimSuffix(pod.Name, "-"+strings.ToLower(pod.Spec.NodeName))
		s.pods[manifestName{pod.Namespace, name}] = &podState{pod: pod, present: true}
	}
}
