// Package auth authenticates and authorizes requests as the kubelet does on its port 10250.
//
//	a, err := auth.New(auth.Options{NodeName: "node1", ClientCAFile: "ca.crt", TokenReview: true, TokenTTL: time.Minute, Post: post})
//	if err != nil {
//		return err
//	}
//	user, err := a.Authenticate(r)
//	if err == nil {
//		err = a.Authorize(r.Context(), user, auth.AttributesOf(r.Method, r.URL.Path))
//	}
//
// A request proves who it is from with a client certificate or a bearer token. Bearer tokens are
// in a file, or the apiserver knows them (TokenReview). The apiserver
// decides what a user may do (SubjectAccessReview): a verb on a subresource of the node, see
// [AttributesOf].
//
// It uses the small parts of k8s.io/apiserver. docs/adr has the measurements of the large ones.
package auth
