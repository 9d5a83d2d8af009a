// Package auth authenticates and authorizes requests as the kubelet does on its port 10250.
//
// A request proves who it is from with a client certificate or a bearer token. Bearer tokens are
// in a file, or the apiserver knows them (TokenReview). What a user may do is the decision of the
// apiserver (SubjectAccessReview) on a verb and a subresource of the node: see [AttributesOf].
//
// It uses the parts of k8s.io/apiserver that are small. docs/adr has the measurement for those that are
// not.
package auth
