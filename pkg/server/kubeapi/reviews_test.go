package kubeapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
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
		reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
		for _, c := range []struct {
			spec authorizationv1.SelfSubjectAccessReviewSpec
			want bool
		}{
			{resource("", "", "pods", "", "get"), true},
			{resource("", "v1", "pods", "", "list"), true},
			{resource("", "*", "pods", "", "watch"), true},
			{resource("", "v2", "pods", "", "watch"), false},
			{resource("", "v1", "pods", "", "create"), false},
			{resource("", "v1", "pods", "", "*"), false},
			{resource("", "v1", "pods", "log", "get"), false},
			{resource("", "v1", "*", "", "get"), false},
			{resource("*", "*", "*", "*", "*"), false},
			{resource("", "v1", "nodes", "", "get"), true},
			{resource("", "v1", "secrets", "", "get"), false},
			{resource("apps", "v1", "pods", "", "get"), false},
			{path("get", "/healthz"), true},
			{path("get", "/openapi/v3/api/v1"), true},
			{path("get", "/apis2"), false},
			{path("get", "/"), false},
			{path("post", "/healthz"), false},
		} {
			got, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: c.spec}, metav1.CreateOptions{})
			if err != nil {
				t.Fatalf("%s: %+v: %v", form, c.spec, err)
			}
			if got.Status.Allowed != c.want || !strings.Contains(got.Status.Reason, "read-only") || got.Spec.String() != c.spec.String() {
				t.Errorf("%s: got %+v, want %t", form, got, c.want)
			}
		}
		if _, err := reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.resourceAttributes") {
			t.Errorf("%s: of nothing: %v", form, err)
		}
		rules, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
		if err != nil || fmt.Sprint(rules.Status.ResourceRules) != "[{[get list watch] [] [events namespaces nodes pods services] []}]" || rules.Spec.Namespace != "default" {
			t.Errorf("%s: rules %+v: %v", form, rules, err)
		}
		_, err = client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: another's access: %v", form, err)
		}
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
		code, answer := a.do(t, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", body).read(t)
		if code != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%.80q: %d %s, want %s", body, code, answer, want)
		}
	}
}
