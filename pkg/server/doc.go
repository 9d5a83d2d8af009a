// Package server puts the journal on a unix socket.
//
// # The socket
//
// [Listen] makes the socket file, with its mode and group, before anyone can find
// it under its name. A file that a dead daemon left is replaced; one that is
// served, and any that is not a socket, is left alone and an error. The file goes
// when the listener is closed.
//
// # What is spoken
//
// HTTP/1.1 and gRPC, told apart by the preface of HTTP/2. GET /v1alpha1/updates is the stream, one JSON object a line; see package
// api/stream/v1alpha1. Beside it are /v1alpha1/status, /pods as the kubelet has it,
// /healthz, /livez, /readyz, /metrics and /version. Errors are metav1.Status objects
// that name the parameter at fault. The gRPC services are podconfigd.v1alpha1.PodConfig,
// the kubelet's v1alpha1.Pods, grpc.health.v1 and reflection; [Server.RunPodsAPI] serves
// the kubelet's on a socket of its own.
//
// # Readers
//
// Each reader of the stream has a goroutine and a cursor. One that stops reading
// blocks in its own write, and no one else; it is not dropped, and has the state
// told anew when it comes back too late. [Limits] bound what one process may have.
package server
