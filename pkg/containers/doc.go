// Package containers has the containers of the runtime, each with its pod, as one ordered and resumable stream:
//
//	s := containers.New(containers.Options{Runtime: generator, Journal: j, Lookup: find})
//	go s.Run(ctx)
//	cursor := s.Watch(scope, containers.WatchOptions{})
//	defer cursor.Close()
//	for {
//		updates, err := cursor.Next(ctx)
//		if err != nil {
//			return err
//		}
//		send(updates)
//	}
//
// # Ways in and out
//
//  1. The generator of pkg/pleg calls the [Stream] with each change of a container, in their order ⇒ Run makes a row of it,
//     with the pod of the journal.
//  2. Run follows the journal: a pod that comes later, or whose labels or owners change, changes the rows of its containers. So do
//     the devices that the kubelet lists.
//  3. A running container whose processes are not known ⇒ a goroutine reads its handles from procfs ⇒ Run changes the row.
//  4. Each change of a row has a revision, and enters a ring. [Cursor.Next] makes updates of it that show what the access rules
//     and the selector of the subscriber allow.
//
// # Recording
//
// Nothing is recorded until somebody watches or lists, and changes are recorded for some minutes after the last subscriber has left.
// Each recording is an instance. A subscriber that resumes from another instance, or from a change that has left the ring, gets a
// reset and the present containers.
package containers
