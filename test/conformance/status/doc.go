// Package status compares the statuses of pkg/podstatus with the kubelet's. The same random pods
// and random states of the runtime go through Generate and through the kubelet's own code, from the
// answers of the runtime to the status manager. Besides, a kubelet runs beside podconfigd, on the
// same manifests and the same runtime.
//
// The kubelet's functions are not exported. The test links them by name, so it has to be
// built with the version of Kubernetes in go.mod. It is its own module, because it compiles
// the whole kubelet.
package status
