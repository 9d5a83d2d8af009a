// Package mirror keeps a mirror pod in the apiserver for each static pod of the node, as a
// kubelet does. It is for nodes without a kubelet.
//
// A [Manager] compares the pods in the journal: the static pods of the file and HTTP sources,
// and the mirror pods of the apiserver source. It creates a mirror pod that is missing, replaces
// one whose static pod changed, deletes one whose static pod is gone, and writes the status of
// the static pod to its mirror pod.
//
//   - Only mirror pods with the annotation [config.OwnMirrorAnnotationKey] are changed.
//   - Nothing happens before the apiserver source is seen, a mirror pod is created or replaced
//     only if the source of its static pod is seen, and deleted only if all sources are seen.
//   - Each request has the UID of the pod as its precondition.
//   - If another client creates or deletes mirror pods of the node, or if a kubelet writes their
//     status, a kubelet manages the node: no more mirror pods are created.
//
// One goroutine makes all requests, one at a time.
package mirror
