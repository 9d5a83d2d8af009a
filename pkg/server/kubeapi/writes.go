package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podconfigd/podconfigd/internal/crictl"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// Has reports whether a path belongs to the API.
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
		answerReview(a, w, r, authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), new(authorizationv1.SelfSubjectAccessReview), reviewAccess)
	case r.Method == http.MethodPost && path == reviewsPrefix+"selfsubjectrulesreviews":
		answerReview(a, w, r, authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), new(authorizationv1.SelfSubjectRulesReview), reviewRules)
	case r.Method == http.MethodPost && path == whoamiPath:
		answerReview(a, w, r, authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), new(authenticationv1.SelfSubjectReview), reviewUser(r.Context()))
	case strings.HasPrefix(path, "/apis/authorization.k8s.io/"), strings.HasPrefix(path, "/apis/authentication.k8s.io/"):
		notFound(w, r)
	case crictl.Instead(path) != "":
		respond.Error(w, http.StatusMethodNotAllowed, crictl.Instead(path))
	default:
		w.Header().Set("Allow", "GET, HEAD")
		respond.Error(w, http.StatusMethodNotAllowed, fmt.Sprintf(
			"%s is not supported: podconfigd is read-only; change pods at their source: the manifest directory, the manifest URL or the apiserver", r.Method))
	}
}

const (
	reviewsPrefix = "/apis/authorization.k8s.io/v1/"
	whoamiPath    = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	// maxReview is the maximum size of a review in bytes.
	maxReview = 64 << 10
)

// review is an object whose status is the answer.
type review interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// answerReview decodes a review, calls fill to set its status, and answers with the review. sees is
// whether the client sees any pod.
func answerReview[R review](a *API, w http.ResponseWriter, r *http.Request, kind schema.GroupVersionKind, review R, fill func(review R, sees bool) error) {
	sees, err := a.SeesPods(r.Context())
	if err != nil {
		respond.Error(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.Limits.ListTimeout / 3)) // the writer of a test may have no deadlines
	f := negotiate(r, nil)
	if f == nil || f.table {
		respond.Status(w, notAcceptable(r))
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err == nil {
		err = decodeReview(data, kind, review)
	}
	if err == nil {
		err = fill(review, sees)
	}
	if err != nil {
		respond.BadRequest(w, fmt.Errorf("reading a %s: %w", kind.Kind, err))
		return
	}
	if f.protobuf {
		if data, err = review.Marshal(); err == nil {
			data, err = envelope(kind.GroupVersion().String(), kind.Kind, data)
		}
	} else {
		data, err = json.Marshal(review)
	}
	if err != nil {
		respond.Error(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", f.contentType)
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(data) // the client may have gone away
}

// decodeReview decodes a review of that kind from JSON or protobuf.
func decodeReview(data []byte, kind schema.GroupVersionKind, review review) error {
	var given metav1.TypeMeta
	if raw, ok := bytes.CutPrefix(data, magic); ok {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(raw); err != nil {
			return err
		}
		if err := review.Unmarshal(unknown.Raw); err != nil {
			return err
		}
		given = metav1.TypeMeta{APIVersion: unknown.APIVersion, Kind: unknown.Kind}
	} else if err := json.Unmarshal(data, review); err != nil {
		return err
	} else if err := json.Unmarshal(data, &given); err != nil {
		return err
	}
	if want := kind.GroupVersion().String(); given.Kind != kind.Kind || given.APIVersion != want {
		return fmt.Errorf("expected apiVersion %s, kind %s, got apiVersion %q, kind %q", want, kind.Kind, given.APIVersion, given.Kind)
	}
	return nil
}

// reviewAccess sets whether the client is allowed to do something. sees is whether it sees any pod.
func reviewAccess(review *authorizationv1.SelfSubjectAccessReview, sees bool) error {
	resource, path := review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes
	if (resource == nil) == (path == nil) {
		return errors.New("expected one of spec.resourceAttributes and spec.nonResourceAttributes")
	}
	status := &review.Status
	*status = authorizationv1.SubjectAccessReviewStatus{
		Reason: "podconfigd serves the Kubernetes API read-only: only get, list and watch of " + resourceNames(),
	}
	switch {
	case resource == nil:
		status.Allowed = path.Verb == "get" && slices.ContainsFunc(readPaths, func(served string) bool { return covers(served, path.Path) })
	case !sees:
		status.Reason = "no access rule of podconfigd shows any pod to you"
	default:
		status.Allowed = resource.Group == "" && slices.Contains([]string{"", "*", "v1"}, resource.Version) &&
			resourceOf(resource.Resource) != nil && resource.Subresource == "" && slices.Contains(readVerbs, resource.Verb)
	}
	return nil
}

// reviewRules sets what the client is allowed to do. sees is whether it sees any pod.
func reviewRules(review *authorizationv1.SelfSubjectRulesReview, sees bool) error {
	review.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: readPaths}},
	}
	if sees {
		var names []string
		for _, res := range resources {
			names = append(names, res.Name)
		}
		review.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: readVerbs, APIGroups: []string{""}, Resources: names}}
	}
	return nil
}

// reviewUser returns a function that sets who the client of a request is. A client without a name is the user with the UID of
// its process, or nobody, with the names of the apiserver.
func reviewUser(ctx context.Context) func(*authenticationv1.SelfSubjectReview, bool) error {
	subject := conn.SubjectFrom(ctx)
	user := authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	switch {
	case subject.User != "":
		user = authenticationv1.UserInfo{Username: subject.User, Groups: subject.Groups}
	case subject.UID != nil:
		user = authenticationv1.UserInfo{Username: fmt.Sprint("uid:", *subject.UID)}
	}
	return func(review *authenticationv1.SelfSubjectReview, _ bool) error {
		review.Status.UserInfo = user
		return nil
	}
}

// readPaths are the paths other than resources that clients may get, in the syntax of RBAC rules.
var readPaths = []string{
	"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/metrics", "/openapi/*", "/pods", "/readyz", "/v1alpha1/*", "/version",
}

// covers reports whether a rule applies to a path.
func covers(rule, path string) bool {
	prefix, all := strings.CutSuffix(rule, "*")
	return path == rule || (all && strings.HasPrefix(path, prefix))
}
