// Package conformance compares podconfigd with the kubelet. It is its own module, so that
// podconfigd does not get the kubelet's dependencies.
package conformance
