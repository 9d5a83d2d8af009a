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
// Every request waits its turn at one gate: attempts of all kinds share one back-off of
// up to ten seconds, or what the apiserver's Retry-After says, up to a minute. Each
// failure is counted, logged once and shown in the status. No wait is longer than the
// context.
//
// When a watch has ended, the pods held are compared with the metadata of those that the
// apiserver has, before another watch goes on: see [store.resume]. So what is held comes
// to equal what the apiserver has, also if that was restored from a backup or replaced.
//
// The kubeconfig and the certificates that it names are looked at every two seconds
// and before each attempt. When they change, the connections made with the old ones
// are closed and the watch goes on, from where it was, with the new ones. Where the
// new ones can't be used, the old ones stay in use and the status says so. Tokens in
// files are client-go's: read again every minute, and at once when one is refused.
package apiserver
