// Package manifest turns the bytes of a pod manifest into the pod that the
// kubelet would make of them: decoded, defaulted, named after the node, given a
// UID and validated.
//
// # Why it depends on k8s.io/kubernetes
//
// A static pod's UID is a hash over the decoded and defaulted internal pod, and
// whether a pod is accepted is decided by the validation of the internal types.
// Both change with each Kubernetes minor and neither is published in a staging
// repository. Written again they would be wrong for some manifest at some version,
// and a pod whose UID differs from the kubelet's is another pod to everyone who
// compares. So this package calls the kubelet's own: legacyscheme, apis/core and
// its v1 defaults and conversion, apis/core/validation, api/pod and util/hash. It
// is the only package of this module that imports k8s.io/kubernetes; a test holds
// that.
//
// # What equals the kubelet's, and what is said more clearly
//
// Whether a manifest is accepted and what pod it gives are the kubelet's for the
// same node name and the same path or URL, as written: the path is part of the
// UID. Errors are worded here: each [Fault] has the field and the line. They do not
// contain the manifest itself, and no value of an environment variable.
//
// What the kubelet ignores without a word is a warning: fields that Kubernetes does not
// know, duplicate keys, further YAML documents.
//
// # How lines are found
//
// The kubelet converts YAML to JSON and decodes that, and after that nobody knows about
// lines. So the manifest is parsed once more, to a tree of nodes, if there is something
// to say of it, and the field's path is followed in that tree. A good manifest costs
// nothing more: decoding it strictly, which finds what is to be warned of, takes as long
// as decoding it.
package manifest
