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
func Writes(next http.Handler, bodyTimeout time.Duration, sees func(context.Context) (bool, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		if r.Method == http.MethodGet || r.Method == http.MethodHead || (!strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/apis/")) {
			next.ServeHTTP(w, r)
			return
		}
		switch {
		case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectaccessreviews":
			if seesAny, ok := seesPods(w, r, sees); ok {
				setBodyTimeout(w, bodyTimeout)
				answerReview(w, r, "SelfSubjectAccessReview", new(authorizationv1.SelfSubjectAccessReview), reviewAccess(seesAny))
			}
		case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectrulesreviews":
			if seesAny, ok := seesPods(w, r, sees); ok {
				setBodyTimeout(w, bodyTimeout)
				answerReview(w, r, "SelfSubjectRulesReview", new(authorizationv1.SelfSubjectRulesReview), reviewRules(seesAny))
			}
		case strings.HasPrefix(path, "/apis/authorization.k8s.io/"), strings.HasPrefix(path, "/apis/authentication.k8s.io/"):
			notFound(w, r)
		default:
			w.Header().Set("Allow", "GET, HEAD")
			respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, fmt.Sprintf(
				"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
		}
	})
}

// seesPods reports whether the client sees any pod. If that can't be told, it answers.
func seesPods(w http.ResponseWriter, r *http.Request, sees func(context.Context) (bool, error)) (seesAny, ok bool) {
	seesAny, err := sees(r.Context())
	if err != nil {
		respond.Error(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	}
	return seesAny, err == nil
}

func setBodyTimeout(w http.ResponseWriter, timeout time.Duration) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // the writer of a test may have no deadlines
}
