// Package conformance holds podconfigd against the kubelet itself. It is a module
// of its own so that the kubelet's dependencies are not ours.
package conformance
