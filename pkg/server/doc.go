// Package server serves a journal on unix sockets and over TCP.
//
//	s := server.New(server.Options{Journal: j, Status: j.Status, Gatherer: registry})
//	l, err := socket.Listen(ctx, socket.ListenOptions{Path: "/run/podconfigd/podconfigd.sock", Mode: 0o660})
//	if err != nil {
//		return err
//	}
//	return s.Run(ctx, l)
//
// Package socket makes the sockets. Package conn has the connections and their limits. Packages
// rest, kubeapi and rpc have the protocols.
//
// # Protocols
//
// The socket speaks HTTP/1.1 and gRPC. The server distinguishes them by the preface of HTTP/2. GET
// /v1alpha1/updates is the stream, one JSON object per line; see package api/stream/v1alpha1. Other
// paths are /v1alpha1/status, /v1alpha1/history, /v1alpha1/lookup, /v1alpha1/runtime, /v1alpha1/resync,
// /v1alpha1/release, /pods as the kubelet serves it, the Kubernetes API below /api, /healthz, /livez,
// /readyz, /metrics and /version. Errors are metav1.Status objects that name the invalid parameter. The
// gRPC services are podconfigd.v1alpha1.PodConfig, the Pods API of the kubelet (v1alpha1.Pods),
// grpc.health.v1 and reflection. [Server.RunPodsAPI] serves the Pods API on a socket of its own.
//
// # Subscribers
//
// Each subscriber has a goroutine and a cursor. A subscriber that stops reading blocks only
// its own writes. It is not dropped. If it falls behind the journal, it gets a reset and
// the current state. [conn.Limits] bound what one client process may have.
package server
