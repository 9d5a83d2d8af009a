// Package podstatus computes the status of a pod from the state of its containers in the
// runtime, by the rules of the kubelet.
package podstatus
