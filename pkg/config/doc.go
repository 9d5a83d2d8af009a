// Package config merges the pods of several sources into one ordered series of
// updates, as the kubelet does.
//
// A source gets a channel of its own from [PodConfig.Channel] and sends its full
// set of pods on it, each time that set changes. The mux takes the sets in, the
// pod storage compares each with what the same source had before, and what
// differs leaves through [PodConfig.Updates]: for one set at most one update of
// each kind, in the order REMOVE, ADD, UPDATE, DELETE, RECONCILE. The first set
// of a source that has no pods is told as an empty ADD, so that a reader learns
// that the source has been seen.
//
// # Rules
//
// Pods are told apart by source and UID. A pod is updated when its spec, labels,
// deletion timestamp, grace period or annotations differ (the three annotations
// that the merge keeps itself do not count), and reconciled when only its status
// does. Of two pods with the same name and namespace in one set the first counts.
//
// # Sharing
//
// Nothing that a source sent is written to, and nothing is copied deeply: the
// merge makes a shallow copy of a pod to annotate it with
// kubernetes.io/config.source and kubernetes.io/config.seen, and everyone
// downstream shares that copy. A pod whose pointer the source had sent before is
// not compared again, so a set costs what changed in it.
//
// # Life cycle
//
// [PodConfig.Run] owns the merge and all goroutines of this package and returns
// when its context is done and they have ended. One goroutine merges, so all
// updates of one set leave together and in order; no lock is held while an update
// waits for its reader.
package config
