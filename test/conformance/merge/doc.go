// Package merge holds the merge and the notification modes against the kubelet's:
// the same random sequences of sets go through PodConfig of k8s.io/kubernetes
// v1.34.4, the last version whose channels and modes are exported, and through ours,
// and the updates must be equal.
//
// It is a module of its own because test/conformance has a later Kubernetes.
package merge
