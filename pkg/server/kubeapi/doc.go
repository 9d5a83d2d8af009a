// Package kubeapi serves the pods, the node and the namespaces of the journal as a read-only
// Kubernetes API: what kubectl and the Reflectors and informers of client-go need.
//
// # Pods
//
// Each namespace/name maps to one pod. If several sources have a pod with the name, it is the
// first by source and UID. A mirror pod is served only if no other pod has its name. The
// resourceVersion of a pod is the revision of the journal at which the name got this pod. The
// creationTimestamp of a static pod is the time at which it was first seen.
//
// # Nodes and namespaces
//
// There is one node, and the namespaces that have pods here. Each [resource] is an entry of one
// table, from which paths, discovery and reviews of access are made.
//
// # Lists and watches
//
// All pages of a list are of one revision. A list can be of an earlier revision that the
// journal still has. A watch starts at a revision, or with the current pods. With
// sendInitialEvents, a bookmark follows the current pods. If the revision is compacted, or the
// client falls behind, the watch ends with 410 Gone and the client lists again.
//
// Until every source has been seen, requests wait for a while and are then answered 503. An
// informer would take an incomplete list as complete and drop the missing pods.
//
// # Formats
//
// Pods and their metadata are served as JSON and protobuf, tables as JSON. Each format of a pod
// is encoded once for all clients.
//
// # Other requests
//
// Writes are answered 405. Reviews of the client's own access are answered. The API is
// described by the part of the OpenAPI document of Kubernetes that applies.
package kubeapi
