package kubelet

import (
	"time"

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
