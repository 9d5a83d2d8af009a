// Package podsapi runs the client of the kubelet's Pods API against the kubelet's own server and its own status manager.
// A program feeds them, loses events, swaps them, and restarts the kubelet.
package podsapi
