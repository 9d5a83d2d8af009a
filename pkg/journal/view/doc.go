// Package view says what a subscriber is told of the journal. There is one view for
// each way of telling it:
//
//   - [Incremental]: each update as the merge emits it. A subscriber that falls behind is
//     reset.
//   - [Snapshots]: all pods at each change, as the kubelet's snapshot modes. A subscriber
//     that falls behind is reset.
//   - [Names]: the pod of each name, as the Kubernetes API has them. One that falls behind
//     gets an error, and lists again.
//   - [UIDs]: the pod of each UID, as the kubelet's Pods API has them. One that falls behind
//     is told the difference.
//
// Each can have a [Selector]. What a view makes of a set is kept with the set while that
// is new, so that subscribers with the same view and the same selector share it.
//
// # Frames
//
// A subscriber gets frames: an update, or a piece of one. A piece is small (see
// PieceSize). A subscriber takes some frames, encodes them, lets go of them, and only
// then waits for its client: so one that is slow holds no pods. The bytes that it waits
// with are bounded by the size of a piece, or of the largest pod.
//
// # Revisions
//
// A frame has a revision where the stream can be resumed after it, and none elsewhere:
// not the present pods before the first bookmark, not a reset, and of the pieces of an
// update only the last.
package view
