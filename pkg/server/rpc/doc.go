// Package rpc serves gRPC: podconfigd.v1alpha1.PodConfig, the Pods API of the kubelet (v1alpha1.Pods),
// grpc.health.v1 and reflection.
package rpc
