// Package apiserver is the source of the pods that an apiserver has bound to the node.
//
//	source := apiserver.New(apiserver.Options{Kubeconfig: "/etc/kubernetes/kubelet.conf", Node: "node1"})
//	err := source.Run(ctx, sets)
//
// A Reflector of client-go lists and watches the pods with spec.nodeName=<node> and fills
// an UndeltaStore. Each change of the store is the source's set, as in the kubelet
// (pkg/kubelet/config/apiserver.go). Pods are transferred as protobuf and stored without
// managedFields.
//
// The source sends nothing until the apiserver has the node (kubelet: nodeHasSynced) and
// the first list is complete. After that, an unreachable apiserver changes nothing: the
// last set stays, and the next list or watch has the missed changes.
//
// # Requests to the apiserver
//
// All requests for pods share one backoff of up to ten seconds. If the apiserver asks for a longer wait
// with Retry-After, the source waits that long, up to a minute. Each failure is counted,
// logged once and shown in the status. Every wait ends with the context.
//
// Each watch begins with a list: when a watch has ended, for any reason, the pods become equal to those of the
// apiserver, even if it was restored from a backup or replaced. See [listWatch]. A watch that is silent ends: see
// [stream].
//
// # Credentials
//
// The source checks the kubeconfig, and the certificates in it, every two seconds and
// before each attempt. When they change, it closes the old connections, and lists and
// watches with the new ones. If the new files can't be used, the old ones stay in use, and
// the status shows it. client-go reads tokens in files: every minute, and at once when a
// token is refused.
package apiserver
