package syncloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// RecordReader reads the records of pods from the runtime.
type RecordReader interface {
	// Request requests the record of a pod. It does not block.
	Request(uid types.UID)
	// Forget forgets a pod that no source has any more.
	Forget(uid types.UID)
	// Watch returns the channel of records.
	Watch() <-chan podstatus.Reading
}

// StatusOptions configures the status that the loop shows of pods.
type StatusOptions struct {
	// Sources are the kinds of the sources whose pods get a status. Of the apiserver, only pods without a
	// status from a kubelet get one. Without sources, every pod keeps the status that its
	// source gave it.
	Sources []string
	// NodeIPs returns the addresses of the node: one, or one of each IP family. nil for none.
	NodeIPs func() []string
	// Minor returns the minor version of the kubelet whose rules apply. nil for the newest.
	Minor func() int
	// Records is nil without a runtime.
	Records RecordReader
	// Kubelet gives the status that the kubelet gave a pod of any source; nil without the kubelet's Pods API.
	Kubelet KubeletStatuses
}

// statuses computes the status of pods. Only the goroutine of the loop uses it.
type statuses struct {
	StatusOptions
	records map[types.UID]*podstatus.Record
	node    podstatus.Node
	// waiting are pods whose status may have changed while a set was not complete.
	waiting map[types.UID]bool
	// listed is true after the first list of the runtime.
	listed bool
	// had is what hasKubelet last returned to takeKubelet.
	had bool
	// generate is podstatus.Generate.
	generate func(podstatus.Input) *v1.PodStatus
}

func newStatuses(opts StatusOptions) statuses {
	s := statuses{
		StatusOptions: opts, records: make(map[types.UID]*podstatus.Record), waiting: make(map[types.UID]bool), generate: podstatus.Generate,
	}
	if s.NodeIPs == nil {
		s.NodeIPs = func() []string { return nil }
	}
	if s.Minor == nil {
		s.Minor = func() int { return 0 }
	}
	s.node.IPs, s.node.Minor = s.NodeIPs(), s.Minor()
	s.had = s.hasKubelet()
	return s
}

func (s *statuses) enabled() bool { return len(s.Sources) > 0 || s.Kubelet != nil }

// readings returns the channel of records.
func (s *statuses) readings() <-chan podstatus.Reading {
	if s.Records == nil || !s.enabled() {
		return nil
	}
	return s.Records.Watch()
}

// restored takes the pods of a source before a restart. Their statuses are computed again at
// the start: with other options, they may get none.
func (s *statuses) restored(u config.PodUpdate, pods *podManager) {
	for _, pod := range u.Pods {
		s.renew(pods.podOf(u.Source, pod.UID))
	}
}

// renew makes reconcile compute the status of a pod again. Without a runtime, no status stands but that of a kubelet.
func (s *statuses) renew(p *sourcePod) {
	s.waiting[p.pod.UID] = true
	if s.Records == nil && !s.ofKubelet(p) {
		p.generated = nil
	}
}

// forget forgets a pod.
func (s *statuses) forget(uid types.UID) {
	delete(s.records, uid)
	delete(s.waiting, uid)
	if s.Records != nil {
		s.Records.Forget(uid)
	}
}

// covers reports whether the pod gets a status other than its own.
func (s *statuses) covers(p *sourcePod) bool {
	if p.source == config.ApiserverSource && (config.IsMirrorPod(p.pod) || written(p.pod)) {
		return false
	}
	return slices.Contains(s.Sources, config.SourceKind(p.source))
}

// statusFor returns the status to show of a pod, or nil for its own. An unchanged status is the same
// pointer as before.
func (s *statuses) statusFor(ctx context.Context, p *sourcePod, mirror *v1.Pod) *v1.PodStatus {
	status, by := s.fromKubelet(p)
	if status == nil {
		status, by = s.computed(ctx, p, mirror)
	}
	p.by = by
	switch {
	case status == nil || equality.Semantic.DeepEqual(status, &p.pod.Status):
		return nil
	case p.status != nil && equality.Semantic.DeepEqual(status, p.status):
		return p.status
	}
	return status
}

// computed returns the status by our own rules; nil if nothing is known.
//
// For a static pod, the status in its mirror pod counts if a kubelet wrote it, and if it is as new as the record of the runtime.
// A kubelet can write it before or after podconfigd reads the runtime. An apiserver can refuse it.
func (s *statuses) computed(ctx context.Context, p *sourcePod, mirror *v1.Pod) (*v1.PodStatus, StatusBy) {
	if !s.covers(p) {
		return nil, BySource
	}
	record := s.records[p.pod.UID]
	byMirror := mirror != nil && mirrors(mirror, p.pod) && shows(mirror) && counts(&mirror.Status, record)
	if record == nil && p.generated == nil && !byMirror && !p.pod.Spec.HostNetwork {
		return nil, BySource // nothing is known
	}
	p.follow(record)
	status := s.tryGenerate(ctx, p, record)
	if status == nil {
		return nil, BySource
	}
	if p.generated != nil && equality.Semantic.DeepEqual(status, p.generated) {
		status = p.generated // it is not kept twice
	}
	p.generated = status
	switch {
	case byMirror:
		return &mirror.Status, ByMirrorPod
	case s.Records == nil:
		return status, BySource
	}
	return status, ByRuntime
}

// follow sets the status from which the next one goes on. If the runtime lacked a container and then has the same again, the
// container was never gone: it has neither a restart nor an exit code of that time.
func (p *sourcePod) follow(record *podstatus.Record) {
	switch {
	case p.before == nil && p.generated != nil && podstatus.Lacks(p.generated, record):
		p.before = p.generated
	case p.before != nil && !podstatus.Lacks(p.before, record):
		if podstatus.MatchesRuntime(p.before, record) {
			p.generated = p.before
		}
		p.before = nil
	}
}

// counts reports whether the status in a mirror pod is at least as new as the record of the runtime.
func counts(status *v1.PodStatus, record *podstatus.Record) bool {
	return podstatus.MatchesRuntime(status, record) || podstatus.NewerThanRuntime(status, record)
}

// tryGenerate computes the status of a pod. It returns nil if that panics: the pod, and what the runtime
// reports about it, are not ours, and the other pods need the loop. The pod keeps its own status then.
func (s *statuses) tryGenerate(ctx context.Context, p *sourcePod, record *podstatus.Record) (status *v1.PodStatus) {
	defer func() {
		why := recover()
		if why == nil {
			p.panicked = false
			return
		}
		if !p.panicked {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", why), "The status of the pod can't be computed. Please report this",
				"source", p.source, "pod", klog.KObj(p.pod), "stack", string(debug.Stack()))
		}
		p.panicked = true
		p.generated = nil // if it is the cause, the next status can be computed
	}()
	return s.generate(podstatus.Input{Pod: p.pod, Record: record, Previous: p.generated, Node: s.node, Now: time.Now()})
}

// written reports whether a kubelet wrote the status of a pod in the apiserver. Each status
// that a kubelet writes has a start time.
func written(pod *v1.Pod) bool {
	return pod.Status.StartTime != nil && !config.IsOwnMirrorPod(pod)
}

// shows reports whether a mirror pod has a status that somebody else wrote: a kubelet, or what runs pods instead of one. The
// apiserver makes each new pod Pending.
func shows(mirror *v1.Pod) bool {
	phase := mirror.Status.Phase
	return written(mirror) || phase != "" && phase != v1.PodPending && !config.IsOwnMirrorPod(mirror)
}

// mirrors reports whether a mirror pod is that of this version of a static pod.
//
// kubelet: pkg/kubelet/pod/mirror_client.go getHashFromMirrorPod.
func mirrors(mirror, static *v1.Pod) bool {
	hash := static.Annotations[config.ConfigHashAnnotationKey]
	return hash != "" && mirror.Annotations[v1.MirrorPodAnnotationKey] == hash
}
