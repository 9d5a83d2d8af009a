package kubelet

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// Source says what showed a version.
type Source string

// The sources, the best one first.
const (
	// SourceFlag: the configuration sets the version.
	SourceFlag Source = "flag"
	// SourceSandboxes: the sandboxes of static pods run under UIDs that the version gives.
	SourceSandboxes Source = "sandboxes"
	// SourcePodsAPI: the kubelet's Pods API has static pods under UIDs that the version gives.
	SourcePodsAPI Source = "podsAPI"
	// SourceMirrorPods: the mirror pods of a kubelet have UIDs that the version gives.
	SourceMirrorPods Source = "mirrorPods"
	// SourceNode: the Node in the apiserver names the version.
	SourceNode Source = "node"
	// SourceState: the state directory remembers the version.
	SourceState Source = "state"
	// SourceBase: nothing is known. The version is that of the built-in rules.
	SourceBase Source = "base"
)

// rank is higher for a better source.
func (s Source) rank() int {
	switch s {
	case SourceFlag:
		return 5
	case SourceSandboxes, SourcePodsAPI: // the newer one counts
		return 4
	case SourceMirrorPods:
		return 3
	case SourceNode:
		return 2
	case SourceState:
		return 1
	}
	return 0
}

// moment is when something was observed. Later observations are newer, whatever the clock says. Things that one look
// observed are ordered by their creation time.
type moment struct {
	seq     int
	created time.Time
}

func (m moment) after(other moment) bool {
	if m.seq != other.seq {
		return m.seq > other.seq
	}
	return m.created.After(other.created)
}

// found is a version of the kubelet, and the evidence for it.
type found struct {
	version string // such as 1.34, or v1.34.4 from a Node
	minor   manifest.Minor
	source  Source
	at      moment
}

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

// maxSandboxes limits the number of sandboxes that are remembered. If there are more, the newest are remembered.
const maxSandboxes = 4096

// Memory is what is remembered across a restart.
type Memory struct {
	// Version is the version of the kubelet. Source says what showed it.
	Version string `json:"version"`
	Source  Source `json:"source"`
	// Sandboxes has the IDs of the sandboxes of static pods that were seen before the evidence for the version, or with
	// it, in the order in which they were seen. Any other sandbox is newer, whatever the clock says.
	Sandboxes []string `json:"sandboxes,omitempty"`
	// Node is the version in the Node object; empty if it was not known.
	Node string `json:"node,omitempty"`
	// Adopting means that the UIDs of the kubelet were adopted.
	Adopting bool `json:"odd,omitempty"`
	// If UIDs were adopted, Adopted has the UID that the rules give the manifest of each sandbox, by ID of the sandbox. If
	// the manifest is edited while podconfigd is down, the rules give another UID.
	Adopted map[string]types.UID `json:"adopted,omitempty"`
}

// remember stores what was found, if it has changed. It also stores the base, if nothing is known: the next release has
// another base, and the pods must keep their UIDs. An exception is a base beside restored pods, whose UIDs may show
// another version when their manifests are decoded.
func (f *Finder) remember() {
	f.mu.Lock()
	defer f.mu.Unlock()
	memory := Memory{
		Version: f.found.version, Source: f.found.source, Sandboxes: f.notNewer(), Node: cmp.Or(f.node, f.memory.Node), Adopting: f.adopting, Adopted: f.adopted(),
	}
	if f.found.source == SourceState && f.memory.Version != "" {
		memory.Version, memory.Source = f.memory.Version, f.memory.Source
	}
	if f.opts.Remember == nil || f.found.source == SourceBase && len(f.restored) > 0 || reflect.DeepEqual(memory, f.memory) {
		return
	}
	f.memory = memory
	f.opts.Remember(&memory)
}

// adopted returns Memory.Adopted.
func (f *Finder) adopted() map[string]types.UID {
	if f.running == nil { // the runtime has not answered yet
		return f.memory.Adopted
	}
	var uids map[string]types.UID
	for _, s := range f.running {
		if !f.adopting || s.known || s.of == "" {
			continue
		}
		if uids == nil {
			uids = make(map[string]types.UID)
		}
		uids[s.id] = s.of
	}
	return uids
}

// notNewer returns Memory.Sandboxes.
func (f *Finder) notNewer() (ids []string) {
	for id, at := range f.sandboxes {
		if !at.after(f.found.at) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		switch x, y := f.sandboxes[a], f.sandboxes[b]; {
		case y.after(x):
			return -1
		case x.after(y):
			return 1
		}
		return cmp.Compare(a, b)
	})
	return ids[max(0, len(ids)-maxSandboxes):]
}

// Others returns the static pods whose UID podconfigd can't explain, ordered by name: neither an earlier version of the
// manifest nor the rules of another kubelet give that UID. A pod whose manifest may have been edited is not one of them before
// a kubelet must have replaced it.
func (f *Finder) Others() []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.others()
}

func (f *Finder) others() (names []types.NamespacedName) {
	for name, s := range f.running {
		if (s.unknown || f.found.source == SourceFlag) && !s.known && f.differs(name, s.uid) && (f.adopting || s.settled()) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return names
}

// Minor returns the minor version whose rules are followed.
func (f *Finder) Minor() int { return int(f.opts.Decoder.Minor()) }

// Status returns what was found and how, and what is wrong with it.
func (f *Finder) Status() *v1alpha1.KubeletStatus {
	present := f.Present()
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &v1alpha1.KubeletStatus{
		Version: f.found.version, Source: string(f.found.source), Rules: f.found.minor.Nearest().String(), Present: present,
	}
	others := f.others()
	switch n := len(others); {
	case n > 0:
		s.OtherUIDs = n
		running := f.running[others[0]]
		s.Detail = fmt.Sprintf("%v runs under UID %s, and the rules of kubelet %s give it %s", others[0], running.uid, s.Rules, f.decoded[others[0]])
		if n > 1 {
			s.Detail += fmt.Sprintf("; so do %d more", n-1)
		}
		s.Detail += f.advice()
	case !f.found.minor.Known():
		s.Detail = fmt.Sprintf("the rules of kubelet %v are not known: those of %s are used", f.found.minor, s.Rules)
	}
	return s
}

// advice says what to do about static pods with an unexplained UID.
func (f *Finder) advice() string {
	switch {
	case f.found.source == SourceFlag:
		return ": unset --kubelet-version to find the version"
	case !f.adopting: // the rules give the UIDs of other pods
		return ": the kubelet still runs an earlier version of the manifest, or has it from another file"
	}
	return fmt.Sprintf(": no rules of %v to %v give that UID, so it is taken from the sandbox: set the path and the node name exactly as for the kubelet (--pod-manifest-path, --hostname-override)",
		manifest.Oldest, manifest.Base)
}
