// Package merge compares the merge and the notification modes with results that were recorded from
// the kubelet. Random sequences of sets went through the PodConfig of k8s.io/kubernetes v1.34.4.
// The same sequences go through podconfigd's PodConfig and journal here. The updates must be equal.
//
// test/conformance/merge runs the kubelet's code itself, on other sequences, and records the results:
//
//	cd test/conformance/merge && go test . -run Recorded -record
package merge
