package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// sighting is how a static pod was seen: its newest ready sandbox, its entry in the Pods API, or its mirror pod.
type sighting struct {
	source Source
	id     string
	uid    types.UID
	at     moment
	// known means that the UID is explained: the present rules or those of another minor give it, or a pod of the last
	// run had it. unknown means that no rules give it.
	known, unknown bool
	// of is the UID that the rules give the version of the manifest that runs; empty if that version was not decoded.
	of types.UID
	// until is when a kubelet must have replaced the pod if its manifest was edited; zero if the manifest was not decoded.
	until time.Time
}

// replaced is the time that a kubelet takes to replace a static pod, beside its grace period: to notice the edit, to end
// the containers and to start others.
//
// kubelet: fileCheckFrequency and httpCheckFrequency of KubeletConfiguration.
const replaced = 30 * time.Second

// settled reports whether the UID is that of the manifest, and not of a version before an edit.
func (s *sighting) settled() bool { return !s.until.IsZero() && !time.Now().Before(s.until) }

// lookAgain calls look with the recorded pods of the runtime.
func (f *Finder) lookAgain() (unknown bool) {
	var pods []*pleg.Pod
	listed := f.opts.Pods == nil && f.opts.Statics != nil
	if f.opts.Pods != nil {
		pods, listed = f.opts.Pods()
	}
	return listed && f.look(pods)
}

// look records how each static pod is seen: its newest ready sandbox, or its entry in the kubelet's Pods API. It reports
// whether the UID of one of them has to be identified, because the rules give the pod another UID.
func (f *Finder) look(pods []*pleg.Pod) (unknown bool) {
	var statics map[types.NamespacedName]types.UID
	if f.opts.Statics != nil {
		statics = f.opts.Statics()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	seen := make(map[string]moment)
	newest := make(map[types.NamespacedName]*sighting)
	for _, pod := range pods {
		if pod.Source != config.FileSource && pod.Source != config.HTTPSource {
			continue
		}
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if !c.Sandbox {
				continue
			}
			at, known := f.sandboxes[c.ID]
			if !known {
				at = moment{seq: f.seq, created: c.CreatedAt}
			}
			seen[c.ID] = at
			if n := newest[name]; c.State == pleg.StateRunning && (n == nil || at.after(n.at)) {
				newest[name] = &sighting{source: SourceSandboxes, id: c.ID, uid: pod.UID, at: at, of: f.memory.Adopted[c.ID]}
			}
		}
	}
	f.sandboxes = seen
	for name, uid := range statics {
		newest[name] = &sighting{source: SourcePodsAPI, id: string(uid), uid: uid, at: moment{seq: f.seq, created: time.Now()}}
	}
	for name, now := range newest {
		switch before := f.running[name]; {
		case before != nil && before.id == now.id:
			newest[name] = before
			continue
		case before != nil && before.uid == now.uid: // the same version of the manifest
			now.of, now.until = cmp.Or(now.of, before.of), before.until
		}
		now.known = f.gives(name, now.uid)
		unknown = unknown || f.differs(name, now.uid)
	}
	f.running = newest
	return unknown && f.found.source != SourceFlag
}

// differs reports whether the static pod of that name was decoded with another UID.
func (f *Finder) differs(name types.NamespacedName, uid types.UID) bool {
	decoded, known := f.decoded[name]
	return known && decoded != uid && !f.gives(name, uid)
}

// MirrorPod records a mirror pod of the apiserver, or its removal. It counts once a kubelet has written its status: everybody
// with the right to create pods can create one, with any owner and any managedFields, but the apiserver drops its status. One
// that podconfigd made never counts, because podconfigd writes its status.
func (f *Finder) MirrorPod(pod *v1.Pod, removed bool) {
	if _, own := pod.Annotations[config.OwnMirrorAnnotationKey]; !removed && (own || pod.Status.StartTime == nil) {
		return
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	uid := types.UID(pod.Annotations[v1.MirrorPodAnnotationKey])
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.mirrors[name]
	switch {
	case removed:
		if before != nil && before.id == string(pod.UID) {
			delete(f.mirrors, name)
		}
	case before == nil || before.id != string(pod.UID):
		f.mirrors[name] = &sighting{source: SourceMirrorPods, id: string(pod.UID), uid: uid, at: moment{created: pod.CreationTimestamp.Time}}
		if f.running[name] == nil && f.differs(name, uid) && f.found.source != SourceFlag {
			f.opts.Decoder.Redecode()
		}
	}
}

// Decoded records the UID that the rules give a pod in that file, with that grace period. It returns the UID under which the kubelet runs
// the pod; empty if that needs no explanation. It is a part of [manifest.Evidence].
func (f *Finder) Decoded(name types.NamespacedName, file string, uid types.UID, grace time.Duration) (running types.UID) {
	gone := f.missing(name, file) // a file system that does not answer must not hold the lock
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.decoded) >= maxNames {
		clear(f.decoded)
		clear(f.files)
	}
	f.decoded[name] = uid
	f.decodedFile(name, file, uid, gone)
	s := f.seen(name)
	if s == nil {
		return ""
	}
	s.known = s.known || f.gives(name, s.uid)
	s.of = cmp.Or(s.of, uid)
	if s.until.IsZero() { // the version that runs can have another grace period: probably the default
		s.until = time.Now().Add(max(grace, v1.DefaultTerminationGracePeriodSeconds*time.Second) + replaced)
	}
	if f.found.source == SourceFlag || s.known && s.uid != uid {
		return "" // the sandbox belongs to another version of the manifest
	}
	return s.uid
}

// seen returns the sandbox of a static pod, otherwise its mirror pod, otherwise its restored pod, otherwise nil.
func (f *Finder) seen(name types.NamespacedName) *sighting {
	return cmp.Or(f.running[name], f.mirrors[name], f.restored[name])
}

// Identified records which minor gives a pod the UID under which the kubelet runs it; 0 for none. It reports whether the pod
// gets that UID although no rules give it. It is a part of [manifest.Evidence].
func (f *Finder) Identified(name types.NamespacedName, running types.UID, by manifest.Minor) (adopt bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.seen(name)
	if s == nil || s.uid != running {
		return false // the pod has another sandbox by now
	}
	if _, restored := f.opts.Restored[running]; by == 0 && restored && !f.adopting {
		s.known = true // the UID of an earlier version of the manifest
		return false
	}
	if by == 0 {
		s.unknown = true
		f.Notice() // to decide
		return f.adopting && s.source != SourceMirrorPods && s.of == f.decoded[name] && len(f.files[name]) < 2
	}
	s.known = true
	f.offer(found{version: by.String(), minor: by, source: s.source, at: s.at})
	return false
}

// decide decides whether to adopt the UIDs of the kubelet, and reports whether that has changed. It adopts them if no rules
// give any of them, and each of them has stood for the time that a kubelet takes to replace the pod of an edited manifest.
// If the rules give some of them, the others belong to earlier versions of the manifests. If files are ignored, the kubelet may
// have the pods from them.
func (f *Finder) decide() (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, unknown, waiting := false, false, false
	for _, s := range f.running {
		known = known || s.known
		if s.unknown && !s.known {
			unknown, waiting = true, waiting || !s.settled()
		}
	}
	adopting := !known && !f.ignoring && (f.adopting || unknown && !waiting)
	changed = adopting != f.adopting
	f.adopting = adopting
	if f.nodeAt.after(f.found.at) {
		f.followNode() // the sandboxes that showed another version may be gone
	}
	return changed
}

// offer takes a version if its evidence is better or newer than that of the present one.
func (f *Finder) offer(next found) {
	now := &f.found
	switch by := next.source.rank() - now.source.rank(); {
	case now.source == SourceFlag, by < 0:
		return
	case now.source == SourceState && next.source.rank() == SourceSandboxes.rank() && next.minor != now.minor && !next.at.after(now.at):
		return // an old sandbox that is still there
	case by == 0 && !next.at.after(now.at):
		return
	}
	if next.minor == now.minor && len(now.version) > len(next.version) {
		next.version = now.version // such as v1.34.4, for 1.34
	}
	changed := next.minor != now.minor
	if !changed && now.at.after(next.at) {
		next.at = now.at // what was remembered is newer
	}
	f.found = next
	if changed {
		for _, s := range f.running {
			s.of, s.until = "", time.Time{} // the other rules give another UID
		}
		f.memory.Adopted = nil
		f.opts.Decoder.Use(next.minor)
	}
	f.Notice()
}

// report logs what was found, if it has changed. If patient, it does not log the base: something better may be found.
func (f *Finder) report(ctx context.Context, patient bool) {
	f.mu.Lock()
	now := f.found
	line := fmt.Sprintf("%v %v", now.minor, now.source)
	known := line == f.logged || patient && now.source == SourceBase
	if !known {
		f.logged = line
	}
	f.mu.Unlock()
	if !known {
		klog.FromContext(ctx).Info("Following the rules of a kubelet", "version", now.version, "rules", now.minor.Nearest(), "source", now.source)
	}
}
