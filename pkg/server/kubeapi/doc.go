// Package kubeapi serves the journal's pods as the Kubernetes API does, read-only: what
// client-go's Reflector and informers need, and kubectl get and describe.
//
// # Pods
//
// A name stands for one pod. Where several sources have one of it, that is the first
// by source and UID, but a mirror pod only where there is nothing else. Its
// resourceVersion is the journal's revision at which it came to be so, and not the
// apiserver's.
//
// # Lists and watches
//
// Lists can be had in pieces, of which all are of one revision, or at a revision that
// is still there. Watches begin at a revision, or with the present pods, with a
// bookmark at their end where sendInitialEvents asks for it; where the revision is
// gone, or the reader falls behind, they end with 410 Gone, and clients list again.
//
// Until every source has been seen, requests wait for a while and are then answered
// 503: an informer takes a list for the whole, and would throw away what it holds.
//
// # Forms
//
// JSON, protobuf, and tables of either. Pods are marshaled once for all readers.
package kubeapi
