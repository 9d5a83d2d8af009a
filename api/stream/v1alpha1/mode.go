package v1alpha1

// Mode selects how the stream reports changes.
//
// kubelet: PodConfigNotificationMode in pkg/kubelet/config/config.go, up to v1.34.
type Mode string

// The modes.
const (
	// ModeIncremental sends the changes as the merge of the sources emits them. It is the
	// default.
	ModeIncremental Mode = "incremental"
	// ModeSnapshotAndUpdates sends all pods as a SET when pods are added or removed, and
	// UPDATE and DELETE for pods that changed.
	ModeSnapshotAndUpdates Mode = "snapshot-and-updates"
	// ModeSnapshot sends all pods as a SET at each change.
	ModeSnapshot Mode = "snapshot"
)
