// Package merge compares the merge and the notification modes with the kubelet's. The
// same random sequences of sets go through podconfigd's PodConfig and that of
// k8s.io/kubernetes v1.34.4, the last version whose channels and modes are exported. The
// updates must be equal.
//
// It is its own module, because test/conformance has a later Kubernetes. test/merge has the
// sequences, podconfigd's side, and results that are recorded here, which need no Kubernetes.
package merge
