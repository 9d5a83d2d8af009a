package kubelet

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// SetNode sets the version of the kubelet in the Node; empty if there is no Node. If the version changes, a kubelet has just
// started and written it. The first version can be old: the present kubelet may not have written its own yet.
func (f *Finder) SetNode(version string) {
	defer f.nodeOnce.Do(func() { close(f.nodeAsked) })
	if _, err := manifest.ParseMinor(version); err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.node
	if before == version {
		return
	}
	f.node = version
	switch {
	case before != "":
		f.seq++
		f.nodeAt = moment{seq: f.seq, created: time.Now()}
	case f.memory.Node == version && f.found.source == SourceState:
		return // the Node had it before the evidence that is remembered
	}
	f.followNode()
}

// followNode takes the version in the Node, if no static pod that runs shows another one. The version can be older than
// before: another apiserver answers, or etcd was restored.
func (f *Finder) followNode() {
	minor, err := manifest.ParseMinor(f.node)
	if err != nil {
		return
	}
	live := f.found.source.rank() >= SourceMirrorPods.rank() && f.found.source != SourceFlag
	switch {
	case live && minor == f.found.minor:
		f.found.version = f.node // with the patch version
		return
	case live && f.nodeAt.after(f.found.at) && !f.confirmed():
		f.found.source = SourceNode // the evidence for the other version is gone
	}
	f.offer(found{version: f.node, minor: minor, source: SourceNode, at: f.nodeAt})
}

// confirmed reports whether a static pod runs under a UID that is known.
func (f *Finder) confirmed() bool {
	shown := f.running
	if f.found.source == SourceMirrorPods {
		shown = f.mirrors
	}
	for _, s := range shown {
		if s.known {
			return true
		}
	}
	return false
}

// SetReady sets the Ready condition of the Node; nil if it has none.
func (f *Finder) SetReady(ready *v1.NodeCondition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost, f.heartbeat = false, time.Time{}
	switch {
	case ready == nil:
	case ready.Status == v1.ConditionUnknown:
		f.lost = true
	default:
		// If the clock was set back, the time is in the future. A later change of the clock does not change the age.
		f.heartbeat = time.Now().Add(-max(0, time.Since(ready.LastHeartbeatTime.Time)))
	}
}
