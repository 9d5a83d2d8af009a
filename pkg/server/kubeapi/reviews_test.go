package kubeapi

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
)

func TestReviewsOfAccess(t *testing.T) {
	a := serve(t, journal.Options{})
	resource := func(group, version, resource, subresource, verb string) authorizationv1.SelfSubjectAccessReviewSpec {
		return authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "default", Name: "x", Group: group, Version: version, Resource: resource, Subresource: subresource, Verb: verb,
		}}
	}
	path := func(verb, path string) authorizationv1.SelfSubjectAccessReviewSpec {
		return authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path}}
	}
	for form, client := range a.clientsets(t) {
		t.Run(form, func(t *testing.T) {
			reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
			for name, c := range map[string]struct {
				spec authorizationv1.SelfSubjectAccessReviewSpec
				want bool
			}{
				"get pods":        {resource("", "", "pods", "", "get"), true},
				"list pods":       {resource("", "v1", "pods", "", "list"), true},
				"any version":     {resource("", "*", "pods", "", "watch"), true},
				"another version": {resource("", "v2", "pods", "", "watch"), false},
				"create pods":     {resource("", "v1", "pods", "", "create"), false},
				"any verb":        {resource("", "v1", "pods", "", "*"), false},
				"a subresource":   {resource("", "v1", "pods", "log", "get"), false},
				"any resource":    {resource("", "v1", "*", "", "get"), false},
				"anything":        {resource("*", "*", "*", "*", "*"), false},
				"nodes":           {resource("", "v1", "nodes", "", "get"), true},
				"secrets":         {resource("", "v1", "secrets", "", "get"), false},
				"another group":   {resource("apps", "v1", "pods", "", "get"), false},
				"get healthz":     {path("get", "/healthz"), true},
				"the OpenAPI":     {path("get", "/openapi/v3/api/v1"), true},
				"another path":    {path("get", "/apis2"), false},
				"the root":        {path("get", "/"), false},
				"post healthz":    {path("post", "/healthz"), false},
			} {
				t.Run(name, func(t *testing.T) {
					got, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: c.spec}, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if got.Status.Allowed != c.want || !strings.Contains(got.Status.Reason, "read-only") || got.Spec.String() != c.spec.String() {
						t.Errorf("got %+v, want %t", got, c.want)
					}
				})
			}
			if _, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.resourceAttributes") {
				t.Errorf("of nothing: %v", err)
			}
			rules, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
			if err != nil || fmt.Sprint(rules.Status.ResourceRules) != "[{[get list watch] [] [namespaces nodes pods] []}]" || rules.Spec.Namespace != "default" {
				t.Errorf("rules %+v: %v", rules, err)
			}
			_, err = client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("another's access: %v", err)
			}
		})
	}
}

// kubectl auth whoami asks who the client is.
func TestReviewsOfTheUser(t *testing.T) {
	uid := uint32(1000)
	for name, c := range map[string]struct {
		subject access.Subject
		want    authenticationv1.UserInfo
	}{
		"certificate": {
			access.Subject{Authenticated: true, User: "alice", Groups: []string{"readers"}},
			authenticationv1.UserInfo{Username: "alice", Groups: []string{"readers"}},
		},
		"process":        {access.Subject{UID: &uid}, authenticationv1.UserInfo{Username: "uid:1000"}},
		"read-only port": {access.Subject{}, authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got authenticationv1.SelfSubjectReview
			if err := reviewUser(conn.WithSubject(t.Context(), c.subject))(&got, true); err != nil || !reflect.DeepEqual(got.Status.UserInfo, c.want) {
				t.Errorf("got %+v, %v", got.Status.UserInfo, err)
			}
		})
	}
	for form, client := range serve(t, journal.Options{}).clientsets(t) {
		got, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || got.Status.UserInfo.Username == "" {
			t.Errorf("%s: got %+v, %v", form, got, err)
		}
	}
}

// kubectl logs and exec say what to use instead.
func TestWhatOnlyAKubeletHas(t *testing.T) {
	a := serve(t, journal.Options{})
	const pod = "/api/v1/namespaces/default/pods/web"
	for name, c := range map[string]struct {
		method, path string
		code         int
		want         string
	}{
		"logs":          {http.MethodGet, pod + "/log", http.StatusNotFound, "for example crictl logs, or kubectl"},
		"exec":          {http.MethodPost, pod + "/exec?command=ls", http.StatusMethodNotAllowed, "for example crictl exec, or kubectl"},
		"exec by GET":   {http.MethodGet, pod + "/exec?command=ls", http.StatusNotFound, "for example crictl exec, or kubectl"},
		"port-forward":  {http.MethodPost, pod + "/portforward", http.StatusMethodNotAllowed, "for example crictl port-forward, or kubectl"},
		"other":         {http.MethodGet, pod + "/ephemeralcontainers", http.StatusNotFound, "podconfigd has namespaces, nodes"},
		"of a service":  {http.MethodGet, "/api/v1/namespaces/default/services/web/log", http.StatusNotFound, "podconfigd has namespaces, nodes"},
		"deeper":        {http.MethodGet, pod + "/log/x", http.StatusNotFound, "podconfigd has namespaces, nodes"},
		"another write": {http.MethodPost, pod + "/eviction", http.StatusMethodNotAllowed, "change pods at their source"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, answer := a.do(t, c.method, c.path, "", "").read(t); code != c.code || !strings.Contains(answer, c.want) {
				t.Errorf("%d %s", code, answer)
			}
		})
	}
}

func TestBrokenReviews(t *testing.T) {
	a := serve(t, journal.Options{})
	for body, want := range map[string]string{
		"":            "unexpected end of JSON input",
		"[]":          "cannot unmarshal array",
		"{}":          `expected apiVersion authorization.k8s.io/v1, kind SelfSubjectAccessReview, got apiVersion \"\", kind \"\"`,
		"k8s\x00\xff": "reading a SelfSubjectAccessReview",
		"k8s\x00":     `got apiVersion \"\"`,
		`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1"}`: `got apiVersion \"authorization.k8s.io/v1beta1\"`,
		strings.Repeat(" ", 64<<10+1): "request body too large",
	} {
		t.Run(want, func(t *testing.T) {
			code, answer := a.do(t, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", body).read(t)
			if code != http.StatusBadRequest || !strings.Contains(answer, want) {
				t.Errorf("%.80q: %d %s, want %s", body, code, answer, want)
			}
		})
	}
}
