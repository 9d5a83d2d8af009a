// Package manifest makes a pod of the bytes of a manifest, as the kubelet does: it
// decodes the manifest, applies defaults, adds the node name to the pod's name, sets the
// UID and validates the pod.
//
// # Why it depends on k8s.io/kubernetes
//
// The UID of a static pod is a hash of the decoded internal pod with its defaults. The
// validation of the internal types decides whether a pod is accepted. Both change with
// each minor version of Kubernetes, and no staging repository publishes them. A
// reimplementation would be wrong for some manifest of some version. A pod with another
// UID than the kubelet's is another pod to every program that compares the two. So this
// package calls the kubelet's own code: legacyscheme, apis/core and its v1 defaults and
// conversion, apis/core/validation, api/pod and util/hash. It is the only package of this
// module that imports k8s.io/kubernetes. A test checks this.
//
// # Differences from the kubelet
//
// The verdict and the pod are the kubelet's for the same node name and the same path or
// URL. The spelling of the path matters, because it is part of the UID.
//
// The errors are different: each [Fault] has the field and the line. An error never
// contains the manifest itself, or the value of an environment variable.
//
// Faults that the kubelet ignores are warnings: fields that Kubernetes does not know,
// duplicate keys, further YAML documents.
//
// # How lines are found
//
// The kubelet converts YAML to JSON and decodes the JSON, which has no lines. So if there
// is a fault or a warning, this package parses the manifest again, into a tree of nodes,
// and follows the path of the field in the tree. A good manifest has no additional cost:
// strict decoding, which finds the warnings, takes as long as decoding.
package manifest
