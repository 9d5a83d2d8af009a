// Package apiserver is the source of the pods that an apiserver has bound to the
// node.
//
// A Reflector of client-go lists and watches the pods with spec.nodeName=<node> and
// fills an UndeltaStore, each change of which is the source's set, as in the
// kubelet (pkg/kubelet/config/apiserver.go). Pods come as protobuf and are kept
// without managedFields.
//
// Nothing is sent before the apiserver knows the node (kubelet: nodeHasSynced) and
// the first list is complete. From then on an apiserver that can't be reached
// changes nothing: the last set is held, and what changed meanwhile comes with the
// next list or watch.
//
// # Reaching the apiserver
//
// What the Reflector asks for is asked until there is an answer, with waits of up to
// ten seconds between attempts; only answers that the Reflector itself has a remedy
// for, such as an expired resourceVersion, are handed on. So nothing waits longer
// than that once the apiserver is back, and nothing waits when the context is done.
//
// The kubeconfig and the certificates that it names are looked at every two seconds
// and before each attempt. When they change, the connections made with the old ones
// are closed and the watch goes on, from where it was, with the new ones. Where the
// new ones can't be used, the old ones stay in use and the status says so. Tokens in
// files are client-go's: read again every minute, and at once when one is refused.
package apiserver
