package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Writes answers the writing requests of the Kubernetes API, and passes all other requests on.
// It refuses them, except for reviews of access, which change nothing. bodyTimeout is the time
// in which a client must send a review. sees reports whether the client of a request sees any pod.
func Writes(next http.Handler, bodyTimeout time.Duration, sees func(context.Context) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		if r.Method == http.MethodGet || r.Method == http.MethodHead || (!strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/apis/")) {
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectaccessreviews":
			setBodyTimeout(w, bodyTimeout)
			answerReview(w, r, "SelfSubjectAccessReview", new(authorizationv1.SelfSubjectAccessReview), reviewAccess(sees(r.Context())))
		case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectrulesreviews":
			setBodyTimeout(w, bodyTimeout)
			answerReview(w, r, "SelfSubjectRulesReview", new(authorizationv1.SelfSubjectRulesReview), reviewRules(sees(r.Context())))
		case strings.HasPrefix(path, "/apis/authorization.k8s.io/"), strings.HasPrefix(path, "/apis/authentication.k8s.io/"):
			notFound(w, r)
		default:
			w.Header().Set("Allow", "GET, HEAD")
			respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, fmt.Sprintf(
				"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
		}
	})
}

func setBodyTimeout(w http.ResponseWriter, timeout time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // the writer of a test may have no deadlines
}
