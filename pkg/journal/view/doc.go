// Package view selects what a subscriber gets from the journal. Each kind of subscription
// is a view:
//
//   - [Stream] in [IncrementalMode]: each update as the merge emits it. A subscriber that falls
//     behind gets a reset.
//   - [Stream] in the snapshot modes: all pods at each change, as in the kubelet's snapshot
//     modes. A subscriber that falls behind gets a reset.
//   - [Names]: the pod of each name, for the Kubernetes API. A subscriber that falls behind gets
//     an error, and lists again.
//   - [UIDs]: the pod of each UID, for the kubelet's Pods API. A subscriber that falls behind
//     gets the difference.
//
// A subscriber reads frames until it closes the view:
//
//	cursor := view.Stream(j, view.StreamOptions{Since: &revision})
//	defer cursor.Close()
//	for {
//		frames, err := cursor.Next(ctx)
//		if err != nil {
//			return err
//		}
//		send(frames)
//		clear(frames)
//	}
//
// Each view can have a [Selector]. The newest sets cache the frames of views. So subscribers
// with the same view and the same selector share them.
//
// # Frames
//
// A frame is an update, or a small piece of one (see PieceSize). A subscriber takes some
// frames, encodes them, releases them, and only then waits for its client. So a slow
// subscriber holds no pods. It holds at most the bytes of a piece, or of the largest pod.
//
// # Revisions
//
// A frame has a revision only if the stream can be resumed after it. The current pods
// before the first bookmark, a reset, and the pieces of an update except its last have
// none.
package view
