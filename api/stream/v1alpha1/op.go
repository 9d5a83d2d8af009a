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

// Op is the operation of an update: what the update means for its pods.
type Op string

// The operations.
const (
	// OpAdd means that the pods are new in the source.
	OpAdd Op = "ADD"
	// OpUpdate means that the pods changed.
	OpUpdate Op = "UPDATE"
	// OpRemove means that the pods are no longer in the source.
	OpRemove Op = "REMOVE"
	// OpDelete means that the pods are being deleted gracefully: deletionTimestamp is set.
	OpDelete Op = "DELETE"
	// OpReconcile means that only the status or the owner references of the pods changed.
	OpReconcile Op = "RECONCILE"
	// OpSet means that the pods are all current pods. It occurs in the snapshot modes.
	OpSet Op = "SET"
	// OpSync means that the pods did not change and are due for a sync.
	OpSync Op = "SYNC"
	// OpPLEG means that containers of the pod changed state in the runtime.
	OpPLEG Op = "PLEG"
	// OpHousekeeping means that the pods are in the runtime and in no source.
	OpHousekeeping Op = "HOUSEKEEPING"
	// OpBookmark has no pods. It is a position from which the stream can be resumed, or a
	// reset.
	OpBookmark Op = "BOOKMARK"
	// OpMetadata has no pods. It has the labels and annotations of namespaces or the node, if they are requested.
	OpMetadata Op = "METADATA"
)

// OpAll selects all operations in a request. No update has it.
const OpAll Op = "*"
