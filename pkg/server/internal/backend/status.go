package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// StatusJSON encodes a status as JSON.
func StatusJSON(status *v1alpha1.Status) ([]byte, error) {
	data, err := json.Marshal(status)
	return append(data, '\n'), err
}

// StatusAnswer returns the encoded status for the client of the context. Clients with the same view
// share it.
func (b *Backend) StatusAnswer(ctx context.Context, form string, encode func(*v1alpha1.Status) ([]byte, error)) ([]byte, error) {
	scope := b.statusScope(ctx)
	key := form
	if grant := scope.Grant(); grant != nil { // the status has only the subscribers of the user
		key = fmt.Sprintf("%s %p", form, grant)
		if uid := scope.Subject().UID; uid != nil {
			key += fmt.Sprint(" ", *uid)
		}
	}
	return b.statuses.get(key, func() ([]byte, error) {
		status := b.statusFor(scope)
		diagnose(&status, scope.Grant() == nil)
		return encode(&status)
	})
}

// answers makes one answer for all requests that wait for it. Requests that arrive while an answer is
// being made get the next one, so that no answer is older than its request. Clients that do not read share
// one answer in memory.
type answers struct {
	group singleflight.Group
	// making has an element while an answer is made.
	making chan struct{}
}

func newAnswers() *answers { return &answers{making: make(chan struct{}, 1)} }

// get returns the answer with that key.
func (a *answers) get(key string, encode func() ([]byte, error)) ([]byte, error) {
	answer, err, _ := a.group.Do(key, func() (any, error) {
		a.making <- struct{}{} //nolint:ctxsend // it waits for one encode, which waits for no one
		defer func() { <-a.making }()
		a.group.Forget(key) // requests from here on get the next one
		return encode()
	})
	data, _ := answer.([]byte)
	return data, err
}

// hiddenError replaces an error that can quote what the client may not see.
const hiddenError = "the access rules hide the error"

// hiddenDetail replaces a text that names pods.
const hiddenDetail = "the access rules hide the detail"

// hiddenPlace replaces the path or URL of a source.
const hiddenPlace = "<hidden>"

// statusFor returns the status without what the client may not see. The number of pods counts only the
// pods that the client sees. For a client that does not see everything, statusFor copies only the fields
// that it lists, so that no new field is shown by accident.
func (b *Backend) statusFor(scope *view.Scope) v1alpha1.Status {
	all := b.Status()
	grant := scope.Grant()
	if grant == nil {
		return all
	}
	state, _ := scope.State(view.Selector{}, nil) // with an error, it has no pods
	pods := state.Pods
	levels := make(map[string]map[podID]access.Level)
	for _, p := range pods {
		if levels[p.Source] == nil {
			levels[p.Source] = make(map[podID]access.Level)
		}
		levels[p.Source][podID{p.Object.Namespace, p.Object.Name, string(p.Object.UID)}] = grant.Of(p.Source, p.Object).Level()
	}
	some := v1alpha1.Status{
		Instance: all.Instance, Revision: all.Revision, Compacted: all.Compacted, Ready: all.Ready,
		NodeName: all.NodeName, StartTime: all.StartTime, Pods: len(pods), Subscribers: []v1alpha1.Subscriber{},
	}
	for i := range all.Sources {
		some.Sources = append(some.Sources, sourceStatusFor(&all.Sources[i], grant, levels[all.Sources[i].Name]))
	}
	if r := all.Runtime; r != nil {
		some.Runtime = b.runtimeStatusFor(r, scope)
	}
	if a := all.State; a != nil {
		some.State = &v1alpha1.StateStatus{
			Dir: a.Dir, Stored: a.Stored, FailedSince: a.FailedSince, LastError: hide(a.LastError), Segments: a.Segments, Bytes: a.Bytes,
		}
	}
	if k := all.Kubelet; k != nil {
		some.Kubelet = &v1alpha1.KubeletStatus{Version: k.Version, Source: k.Source, Rules: k.Rules, Present: k.Present}
		if k.Detail != "" {
			some.Kubelet.Detail = hiddenDetail
		}
		if a := k.PodsAPI; a != nil { // the other fields count or name pods
			some.Kubelet.PodsAPI = &v1alpha1.KubeletPodsAPI{Socket: a.Socket, Connected: a.Connected, Since: a.Since, LastError: hide(a.LastError)}
		}
	}
	if m := all.MirrorPods; m != nil {
		some.MirrorPods = mirrorStatusFor(m, grant, pods)
	}
	if all.Owners != nil { // all its fields are of all pods
		some.Owners = new(v1alpha1.OwnersStatus)
	}
	if d := all.Devices; d != nil {
		some.Devices = &v1alpha1.DevicesStatus{Socket: d.Socket, LastList: d.LastList}
	}
	if uid := scope.Subject().UID; uid != nil {
		for i := range all.Subscribers {
			if other := &all.Subscribers[i]; other.UID != nil && *other.UID == *uid {
				some.Subscribers = append(some.Subscribers, *other)
			}
		}
	}
	return some
}

// sourceStatusFor returns the status of a source to a client that sees the pods in seen. A client that
// sees a pod of the source at the level Redacted or Full sees the path or URL. A client that sees every
// pod of the source sees the other numbers, too.
func sourceStatusFor(all *v1alpha1.SourceStatus, grant *access.Grant, seen map[podID]access.Level) v1alpha1.SourceStatus {
	some := v1alpha1.SourceStatus{
		Name: all.Name, Seen: all.Seen, Restored: all.Restored, Degraded: all.Degraded, DegradedSince: all.DegradedSince,
		LastError: hide(all.LastError), LastChange: all.LastChange, Pods: len(seen),
	}
	most := access.None
	for _, level := range seen {
		most = max(most, level)
	}
	where := func(path string) string {
		if most < access.Redacted {
			return hiddenPlace
		}
		return path
	}
	least := grant.AtLeast(all.Name, "").Level()
	every := least > access.None
	if every {
		some.Held = all.Held
	}
	if f := all.File; f != nil {
		some.File = &v1alpha1.FileStatus{
			Path: where(f.Path), Absent: f.Absent, Watch: f.Watch, WatchError: hide(f.WatchError), Manifests: verdicts(f.Manifests, seen, true),
		}
		if every {
			some.File.Overflows, some.File.Settling = f.Overflows, f.Settling
		}
	}
	if h := all.HTTP; h != nil {
		some.HTTP = &v1alpha1.HTTPStatus{URL: where(h.URL), LastSuccess: h.LastSuccess, Manifests: verdicts(h.Manifests, seen, least == access.Full)}
	}
	if a := all.API; a != nil {
		some.API = &v1alpha1.APIStatus{
			Server: where(a.Server), NodeKnown: a.NodeKnown, Connected: a.Connected, LastList: a.LastList, LastEvent: a.LastEvent,
			Relists: a.Relists, WatchRestarts: a.WatchRestarts,
		}
	}
	return some
}

// runtimeStatusFor returns the status of the container runtime, with the number of pods and containers
// that the client sees. All other numbers are in the metrics, too.
func (b *Backend) runtimeStatusFor(all *v1alpha1.RuntimeStatus, scope *view.Scope) *v1alpha1.RuntimeStatus {
	some := &v1alpha1.RuntimeStatus{
		Endpoint: all.Endpoint, Events: all.Events, EventsError: hide(all.EventsError), Healthy: all.Healthy,
		LastRelist: all.LastRelist, LastError: hide(all.LastError), Relists: all.Relists, RelistErrors: all.RelistErrors,
		RelistP50Seconds: all.RelistP50Seconds, RelistP99Seconds: all.RelistP99Seconds,
		Received: all.Received, Fallbacks: all.Fallbacks, Emitted: all.Emitted,
	}
	if b.Runtime != nil {
		for _, p := range b.RuntimePods(scope).Pods {
			some.Pods++
			some.Containers += len(p.Containers)
		}
	}
	return some
}

func hide(err string) string {
	if err == "" {
		return ""
	}
	return hiddenError
}

// podID identifies a pod of a source, also if two have the same UID.
type podID struct{ namespace, name, uid string }

// verdicts returns the verdicts on the manifests of the pods in seen. The file requires the level
// Redacted. The texts require the level Full, because they can quote the manifest. Without lines, the lines around a
// fault are left out: in the answer of a URL, they can be lines of the items beside it.
func verdicts(all []v1alpha1.Manifest, seen map[podID]access.Level, lines bool) []v1alpha1.Manifest {
	some := make([]v1alpha1.Manifest, 0, len(seen))
	for _, m := range all {
		level := seen[podID{m.Namespace, m.Name, m.UID}]
		if level == access.None {
			continue
		}
		verdict := v1alpha1.Manifest{State: m.State, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Reason: m.Reason}
		if level >= access.Redacted {
			verdict.Path = m.Path
		}
		if level >= access.Full {
			verdict.Message, verdict.Warnings = m.Message, m.Warnings
			if lines {
				verdict.Fault = m.Fault
			}
		}
		some = append(some, verdict)
	}
	return some
}

// RuntimePods returns the pods of the container runtime that the client sees.
func (b *Backend) RuntimePods(scope *view.Scope) v1alpha1.RuntimePods {
	runtime := b.Runtime()
	runtime.Pods = slices.DeleteFunc(runtime.Pods, func(p v1alpha1.RuntimePod) bool {
		return !scope.SeesRuntimePod(types.UID(p.UID), p.Namespace)
	})
	return runtime
}

// mirrorStatusFor returns the status of mirror pods without what the client may not see. pods are the pods
// that it sees.
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

// diagnose adds the problems and their fixes. It uses only the status that the client sees. everything is
// true if the access rules hide nothing.
func diagnose(s *v1alpha1.Status, everything bool) {
	s.Problems = append(mend.Problems(s), s.Problems...)
	s.Sources = slices.Clone(s.Sources) // the sources of other answers stay
	for i := range s.Sources {
		source := &s.Sources[i]
		if everything {
			source.Fix = mend.Source(source)
		}
		if f := source.File; f != nil {
			changed := *f
			changed.Manifests, source.File = mended(f.Manifests), &changed
		}
		if h := source.HTTP; h != nil {
			changed := *h
			changed.Manifests, source.HTTP = mended(h.Manifests), &changed
		}
	}
}

// mended returns the verdicts with their fixes. If the access rules hide the message of a verdict, it gets
// no fix.
func mended(all []v1alpha1.Manifest) []v1alpha1.Manifest {
	all = slices.Clone(all)
	for i := range all {
		if m := &all[i]; m.State != v1alpha1.ManifestAccepted && m.Message != "" {
			m.Fix = mend.Manifest(m)
		}
	}
	return all
}
