// Package kubeapi serves the journal's pods as a read-only Kubernetes API: what
// client-go's Reflector and informers need, and kubectl.
//
// # Pods
//
// Each namespace and name shows one pod. Where several sources have one of that name, it
// is the first by source and UID, and a mirror pod only where there is no other. Its
// resourceVersion is the journal's revision at which the name came to show it. A static
// pod's creationTimestamp is the time at which it was first seen.
//
// # Lists and watches
//
// All pieces of a list are of one revision. A list can be of an earlier revision that
// the journal still has. A watch starts at a revision, or with the present pods,
// followed by a bookmark where sendInitialEvents asks for it. Where the revision is
// gone, or the client falls behind, a watch ends with 410 Gone, and clients list again.
//
// Until every source has been seen, requests wait for a while and are then answered
// 503: an informer takes a list for all there is, and drops what is not in it.
//
// # Forms
//
// JSON and protobuf, of whole pods and of their metadata, and tables in JSON. Each form
// of a pod is encoded once for all clients.
//
// # Everything else
//
// Requests that would write are answered 405. Reviews of the client's own access are
// answered, and the API's description is served, cut out of what Kubernetes publishes.
package kubeapi
