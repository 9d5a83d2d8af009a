package kubeapi

import (
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Has reports whether a path is below those of the API.
func Has(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/")
}

// Write answers a request that is neither GET nor HEAD. It refuses it, except for reviews of access,
// which change nothing.
func (a *API) Write(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectaccessreviews":
		answerReview(a, w, r, "SelfSubjectAccessReview", new(authorizationv1.SelfSubjectAccessReview), reviewAccess)
	case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectrulesreviews":
		answerReview(a, w, r, "SelfSubjectRulesReview", new(authorizationv1.SelfSubjectRulesReview), reviewRules)
	case strings.HasPrefix(path, "/apis/authorization.k8s.io/"), strings.HasPrefix(path, "/apis/authentication.k8s.io/"):
		notFound(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD")
		respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, fmt.Sprintf(
			"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
	}
}
