// Package config merges the pods of several sources into one ordered sequence of
// updates, as the kubelet does.
//
//	pods := config.NewPodConfig()
//	sets := pods.Channel(config.FileSource) // the source sends its sets here
//	go pods.Run(ctx)
//	for update := range pods.Updates() {
//		handle(update.Op, update.Source, update.Pods)
//	}
//
// Each source gets its own channel from [PodConfig.Channel]. It sends its full set of pods
// each time the set changes. The pod storage compares the set with the previous set of the
// same source. The differences are sent on the channel of [PodConfig.Updates]: for one set
// at most one update of each operation, in the order REMOVE, ADD, UPDATE, DELETE,
// RECONCILE. If the first set of a source has no pods, the update is an empty ADD. It
// shows that the source has been seen.
//
// # Rules
//
// Source and UID identify a pod. A pod is updated if its spec, labels, deletion timestamp,
// grace period or annotations differ, except for the three annotations that the merge sets.
// A pod is reconciled if only its status differs. If two pods of a set have the same
// namespace and name, the first one counts.
//
// # Sharing
//
// The merge never writes to a pod of a source, and never copies one deeply. It makes a
// shallow copy of a pod to set the annotations kubernetes.io/config.source and
// kubernetes.io/config.seen. All later stages share that copy. A pod whose pointer was in
// the previous set is not compared again, so the cost of a set depends on its changes.
//
// # Life cycle
//
// [PodConfig.Run] owns the merge and all goroutines of this package. It returns when its
// context is done and all of them have ended. One goroutine merges, so the updates of one
// set are consecutive and in order. No lock is held while an update waits to be received.
package config
