package kubeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

const (
	reviewsPrefix = "/apis/authorization.k8s.io/v1/"
	// maxReview is how many bytes a review may have.
	maxReview = 64 << 10
)

// DefaultBodyTimeout is how long a client may take to send the body of a request.
const DefaultBodyTimeout = 10 * time.Second

// podVerbs are what clients may do with pods.
var podVerbs = []string{"get", "list", "watch"}

// Writes answers the requests that would change something through the Kubernetes API,
// and hands all others on. Reviews of access are posted but change nothing. The time is
// how long a client may take to send the body.
func Writes(next http.Handler, bodyTimeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		if r.Method == http.MethodGet || r.Method == http.MethodHead || (!strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/apis/")) {
			next.ServeHTTP(w, r)
			return
		}
		// net/http, too, reads the body before it sends an answer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not all writers have deadlines: a test's
		switch {
		case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectaccessreviews":
			answerReview(w, r, "SelfSubjectAccessReview", new(authorizationv1.SelfSubjectAccessReview), reviewAccess)
		case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectrulesreviews":
			answerReview(w, r, "SelfSubjectRulesReview", new(authorizationv1.SelfSubjectRulesReview), reviewRules)
		case strings.HasPrefix(path, "/apis/authorization.k8s.io/"), strings.HasPrefix(path, "/apis/authentication.k8s.io/"):
			notFound(w, r)
		default:
			w.Header().Set("Allow", "GET, HEAD")
			respond.Error(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, fmt.Sprintf(
				"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
		}
	})
}

// review is an object that asks for something and is answered with its status.
type review interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// answerReview reads a review, has its status filled in, and answers with it.
func answerReview[R review](w http.ResponseWriter, r *http.Request, kind string, review R, fill func(R) error) {
	f := negotiate(r)
	if f == nil || f.table {
		respond.Status(w, notAcceptable(r))
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err == nil {
		err = decodeReview(data, kind, review)
	}
	if err == nil {
		err = fill(review)
	}
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("reading a %s: %w", kind, err))
		return
	}
	if f.protobuf {
		if data, err = review.Marshal(); err == nil {
			data, err = envelope(authorizationv1.SchemeGroupVersion.String(), kind, data)
		}
	} else {
		data, err = json.Marshal(review)
	}
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", f.contentType)
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(data) // the client may have gone away
}

// decodeReview reads a review of that kind as JSON or protobuf, whichever it is.
func decodeReview(data []byte, kind string, review review) error {
	var is metav1.TypeMeta
	if raw, ok := bytes.CutPrefix(data, magic); ok {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw); err != nil {
			return err
		}
		if err := review.Unmarshal(unknown.Raw); err != nil {
			return err
		}
		is = metav1.TypeMeta{APIVersion: unknown.APIVersion, Kind: unknown.Kind}
	} else if err := json.Unmarshal(data, review); err != nil {
		return err
	} else if err := json.Unmarshal(data, &is); err != nil {
		return err
	}
	if want := authorizationv1.SchemeGroupVersion.String(); is.Kind != kind || is.APIVersion != want {
		return fmt.Errorf("expected apiVersion %s, kind %s, got apiVersion %q, kind %q", want, kind, is.APIVersion, is.Kind)
	}
	return nil
}

// reviewAccess says whether the client may do something.
func reviewAccess(review *authorizationv1.SelfSubjectAccessReview) error {
	resource, path := review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes
	if (resource == nil) == (path == nil) {
		return errors.New("expected one of spec.resourceAttributes and spec.nonResourceAttributes")
	}
	var allowed bool
	if resource != nil {
		allowed = resource.Group == "" && slices.Contains([]string{"", "*", "v1"}, resource.Version) &&
			resource.Resource == "pods" && resource.Subresource == "" && slices.Contains(podVerbs, resource.Verb)
	} else {
		allowed = path.Verb == "get" && slices.ContainsFunc(readPaths, func(served string) bool { return covers(served, path.Path) })
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{
		Allowed: allowed,
		Reason:  "podconfigd serves the Kubernetes API read-only: get, list and watch of pods, and nothing else",
	}
	return nil
}

// reviewRules lists what the client may do.
func reviewRules(review *authorizationv1.SelfSubjectRulesReview) error {
	review.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{{Verbs: podVerbs, APIGroups: []string{""}, Resources: []string{"pods"}}},
		NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: readPaths}},
	}
	return nil
}

// readPaths are the paths beside pods that clients may get, in the form of RBAC rules.
var readPaths = []string{
	"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/metrics", "/openapi/*", "/pods", "/readyz", "/v1alpha1/*", "/version",
}

// covers tells whether a path is one of those that a rule is about.
func covers(rule, path string) bool {
	prefix, all := strings.CutSuffix(rule, "*")
	return path == rule || (all && strings.HasPrefix(path, prefix))
}
