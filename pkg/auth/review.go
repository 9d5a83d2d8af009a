package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// maxAnswers is how many answers of each kind are kept.
	maxAnswers = 1024
	// provenFor is the time after a review for which a token counts as proven.
	provenFor = time.Hour
	// reviewTimeout is the time for a review.
	reviewTimeout = 10 * time.Second

	tokenReviews  = "/apis/authentication.k8s.io/v1/tokenreviews"
	accessReviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

// reviews asks the apiserver, and keeps its answers for a time. Failures are not kept.
type reviews struct {
	opts    Options
	answers *cache.LRUExpireCache // tokens
	allowed *cache.LRUExpireCache
	// proven has the hashes of the tokens that the apiserver last said were valid.
	proven *cache.LRUExpireCache
	asking singleflight.Group
}

func newReviews(opts Options) *reviews {
	newCache := func() *cache.LRUExpireCache { return cache.NewLRUExpireCache(maxAnswers) }
	return &reviews{opts: opts, answers: newCache(), allowed: newCache(), proven: newCache()}
}

// ErrNotAdmitted is the error for a token that is not reviewed because the admission of its
// request does not allow it.
var ErrNotAdmitted = errors.New("the token is not reviewed")

type admissionKey struct{}

// WithAdmission returns a context for a request. admit is called before the apiserver is asked about the
// token of the request, and not if the answer is known. If admit returns false, the apiserver is not
// asked. done is called when there is an answer.
func WithAdmission(ctx context.Context, admit func() (done func(), ok bool)) context.Context {
	return context.WithValue(ctx, admissionKey{}, admit)
}

func admit(ctx context.Context) (done func(), err error) {
	admit, _ := ctx.Value(admissionKey{}).(func() (func(), bool))
	if admit == nil {
		return func() {}, nil
	}
	done, ok := admit()
	if !ok {
		return nil, ErrNotAdmitted
	}
	return done, nil
}

// AuthenticateToken returns the user of a token.
//
// apiserver: plugin/pkg/authenticator/token/webhook AuthenticateToken.
func (r *reviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	review := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token},
	}
	status, err := ask(ctx, r, r.answers, tokenReviews, review, func(answer []byte) (authenticationv1.TokenReviewStatus, time.Duration, error) {
		var got authenticationv1.TokenReview
		err := json.Unmarshal(answer, &got)
		return got.Status, r.opts.TokenTTL, err
	})
	if errors.Is(err, ErrNotAdmitted) {
		return nil, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w for a TokenReview: %w", ErrUnavailable, err)
	}
	hash := sha256.Sum256([]byte(token))
	if !status.Authenticated {
		r.proven.Remove(hash)
		if status.Error != "" {
			return nil, false, errors.New(status.Error)
		}
		return nil, false, nil
	}
	r.proven.Add(hash, struct{}{}, provenFor)
	info := &user.DefaultInfo{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	for key, values := range status.User.Extra {
		if info.Extra == nil {
			info.Extra = make(map[string][]string)
		}
		info.Extra[key] = values
	}
	return &authenticator.Response{User: info}, true, nil
}

// access reports whether the user may do something with a subresource of the node.
//
// apiserver: plugin/pkg/authorizer/webhook Authorize.
func (r *reviews) access(ctx context.Context, u user.Info, verb, subresource string) (allowed bool, err error) {
	review := authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(),
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: r.opts.NodeName,
			},
		},
	}
	for key, values := range u.GetExtra() {
		if review.Spec.Extra == nil {
			review.Spec.Extra = make(map[string]authorizationv1.ExtraValue)
		}
		review.Spec.Extra[key] = values
	}
	status, err := ask(ctx, r, r.allowed, accessReviews, review, func(answer []byte) (authorizationv1.SubjectAccessReviewStatus, time.Duration, error) {
		var got authorizationv1.SubjectAccessReview
		if err := json.Unmarshal(answer, &got); err != nil {
			return got.Status, 0, err
		}
		if got.Status.Allowed {
			return got.Status, r.opts.AllowTTL, nil
		}
		return got.Status, r.opts.DenyTTL, nil
	})
	if err != nil {
		return false, fmt.Errorf("%w for a SubjectAccessReview: %w", ErrUnavailable, err)
	}
	return status.Allowed && !status.Denied, nil
}

// ask posts a review, unless its answer is known. Requests that need the same review at the same
// time wait for one answer. A key is a hash: it has a fixed size, and holds no token.
func ask[T any](ctx context.Context, r *reviews, known *cache.LRUExpireCache, path string, review any, decode func([]byte) (T, time.Duration, error)) (none T, err error) {
	body, err := json.Marshal(review)
	if err != nil {
		return none, err
	}
	key := sha256.Sum256(append([]byte(path), body...))
	if answer, ok := known.Get(key); ok {
		return answer.(T), nil //nolint:errcheck,forcetypeassert // the cache has no other type
	}
	shared := r.asking.DoChan(string(key[:]), func() (any, error) {
		if answer, ok := known.Get(key); ok {
			return answer, nil // another request has just got it
		}
		// Other requests may wait for this answer when this one ends.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		done, err := admit(ctx)
		if err != nil {
			return none, err
		}
		defer done()
		answer, err := r.opts.Post(ctx, path, body)
		if err != nil {
			return none, err
		}
		status, ttl, err := decode(answer)
		if err == nil && ttl > 0 {
			known.Add(key, status, ttl)
		}
		return status, err
	})
	select {
	case result := <-shared:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(T), nil //nolint:errcheck,forcetypeassert // the function returns no other type
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Attributes are the permission that a request requires: a verb on a subresource of the node. Permission
// for one of the subresources is enough.
type Attributes struct {
	Verb         string
	Subresources []string
}

// Subresources of nodes, as for the kubelet.
const (
	subresourcePods    = "pods"
	subresourceMetrics = "metrics"
	subresourceHealthz = "healthz"
	subresourceProxy   = "proxy"
)

var (
	ofPods    = []string{subresourcePods, subresourceProxy}
	ofHealth  = []string{subresourceHealthz, subresourceProxy}
	ofMetrics = []string{subresourceMetrics}
	ofProxy   = []string{subresourceProxy}
)

// rule has the attributes of the requests for a path and the paths below it. If verb is empty, it follows
// from the method of HTTP.
type rule struct {
	path         string
	verb         string
	subresources []string
}

// The first rule that matches counts. A path without a rule requires nodes/proxy.
//
// kubelet: pkg/kubelet/server/auth.go GetRequestAttributes, with KubeletFineGrainedAuthz.
var rules = []rule{
	{"/pods", "", ofPods},
	{"/healthz", "", ofHealth},
	{"/livez", "", ofHealth},
	{"/readyz", "", ofHealth},
	{"/metrics/devices", "", ofPods}, // they name pods
	{"/metrics", "", ofMetrics},
	{"/v1alpha1/updates", "", ofPods},
	{"/api", "", ofPods},
	{"/apis", "", ofPods},
	{"/openapi", "", ofPods},
	{"/version", "", ofPods},
	// Calls of gRPC that only read. All calls are posted, so others create nodes/proxy.
	{"/podconfigd.v1alpha1.PodConfig/Watch", "get", ofPods},
	{"/podconfigd.v1alpha1.PodConfig/List", "get", ofPods},
	{"/podconfigd.v1alpha1.PodConfig/Status", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/History", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/Lookup", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/LookupStream", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/WatchContainers", "get", ofProxy},
	{"/podconfigd.v1alpha1.PodConfig/ListContainers", "get", ofProxy},
	{"/v1alpha1.Pods/WatchPods", "get", ofPods},
	{"/v1alpha1.Pods/ListPods", "get", ofPods},
	{"/v1alpha1.Pods/GetPod", "get", ofPods},
	{"/grpc.health.v1.Health/Check", "get", ofHealth},
	{"/grpc.health.v1.Health/List", "get", ofHealth},
	{"/grpc.health.v1.Health/Watch", "get", ofHealth},
	{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "get", ofPods},
	{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "get", ofPods},
}

// verbs has the verb of each method of HTTP. Other methods have none.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// AttributesOf returns the attributes of a request over HTTP, or of a call of gRPC, whose path is
// the full name of its method.
func AttributesOf(method, requestPath string) Attributes {
	attributes := Attributes{Verb: verbs[method], Subresources: ofProxy}
	if path.Clean(requestPath) != strings.TrimSuffix(requestPath, "/") {
		return attributes // another server may read it as another path
	}
	for _, r := range rules {
		rest, ok := strings.CutPrefix(requestPath, r.path)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		attributes.Subresources = r.subresources
		if r.verb != "" {
			attributes.Verb = r.verb
		}
		return attributes
	}
	return attributes
}
