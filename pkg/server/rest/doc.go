// Package rest serves the paths of podconfigd over HTTP: the stream of updates as one JSON object per
// line, the status, the history, lookups, and /pods as the kubelet serves it. Errors are metav1.Status
// objects that name the invalid parameter.
package rest
