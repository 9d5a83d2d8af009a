// Package podstatus computes the status of a pod from the state of its containers in the
// runtime, by the rules of the kubelet. Generate is a pure function of the pod, the record
// of the runtime, the status before and the time.
//
// The functions have the names of the kubelet's functions. The feature gates are the
// defaults of the kubelet of the version in go.mod.
//
// A status never says more than the runtime reports. The results of probes, the reasons for
// which a container can't be created and the deadlines of a pod are known only to the
// kubelet that runs the pod.
package podstatus
