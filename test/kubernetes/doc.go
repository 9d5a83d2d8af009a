// Package kubernetes tests deploy/kubernetes with real parts: kustomize of kubectl renders it, a
// kube-apiserver admits it, and containerd runs its pod, from an image that has what the
// Dockerfile says.
package kubernetes
