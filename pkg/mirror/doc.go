// Package mirror keeps a mirror pod in the apiserver for each static pod of a node without a kubelet, as a kubelet does:
//
//	m := mirror.New(mirror.Options{Journal: j, Client: apiserver, Node: node})
//	err := m.Run(ctx)
//
// A [Manager] compares the pods in the journal: the static pods of the file and HTTP sources with the mirror pods of the
// apiserver source. It creates a mirror pod that is missing, replaces it if its static pod changed, and deletes it if its
// static pod is gone. It writes the status of the static pod to the mirror pod. One goroutine makes all requests, one at a
// time.
//
// What a Manager guarantees:
//
//   - It changes only mirror pods with the annotation [config.OwnMirrorAnnotationKey].
//   - It does nothing before the apiserver source is seen. It creates or replaces a mirror pod only if the source of its
//     static pod is seen. It deletes a mirror pod only if all sources are seen.
//   - Each request has the UID of the pod as its precondition.
//   - It creates no more mirror pods if a kubelet manages the node: another client creates or deletes mirror pods there, or
//     a kubelet writes their status.
package mirror
