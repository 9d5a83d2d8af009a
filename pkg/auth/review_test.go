package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// apiserver answers reviews. It knows the token "good", and allows get of nodes/pods to everybody.
type apiserver struct {
	mu     sync.Mutex
	asked  map[string]int
	bodies []string
	fail   error
}

func (s *apiserver) post(_ context.Context, path string, body []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]int)
	}
	s.asked[path]++
	s.bodies = append(s.bodies, string(body))
	if s.fail != nil {
		return nil, s.fail
	}
	switch path {
	case tokenReviews:
		var review authenticationv1.TokenReview
		if err := json.Unmarshal(body, &review); err != nil {
			return nil, err
		}
		if review.Spec.Token == "good" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: "sa", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
			}}
		}
		return json.Marshal(review)
	case accessReviews:
		var review authorizationv1.SubjectAccessReview
		if err := json.Unmarshal(body, &review); err != nil {
			return nil, err
		}
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = a.Verb == "get" && a.Subresource == "pods" && a.Name == "n1" && a.Resource == "nodes"
		return json.Marshal(review)
	}
	return nil, fmt.Errorf("%s is not expected", path)
}

func TestReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiserver{}
		a, err := New(Options{NodeName: "n1", TokenReview: true, TokenTTL: 2 * time.Minute, AllowTTL: 5 * time.Minute, DenyTTL: 30 * time.Second, Post: server.post})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 10 { // at the same time: one review
			all.Go(func() { shows(t, a, withToken("good"), "sa g system:authenticated") })
		}
		all.Wait()
		shows(t, a, withToken("bad"), "")
		shows(t, a, withToken("bad"), "")
		if n := server.asked[tokenReviews]; n != 2 {
			t.Errorf("%d reviews of two tokens", n)
		}
		<-time.After(2*time.Minute + time.Second)
		shows(t, a, withToken("good"), "sa g system:authenticated")
		if n := server.asked[tokenReviews]; n != 3 {
			t.Errorf("%d reviews after the TTL", n)
		}

		u := &user.DefaultInfo{Name: "sa", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
		check := func(verb string, allowed bool, subresources ...string) {
			t.Helper()
			err := a.Authorize(t.Context(), u, Attributes{Verb: verb, Subresources: subresources})
			var forbidden *ForbiddenError
			if (err == nil) != allowed || err != nil && !errors.As(err, &forbidden) {
				t.Errorf("%s %v: %v", verb, subresources, err)
			}
		}
		check("get", true, "pods", "proxy")
		check("get", true, "pods", "proxy")
		if n := server.asked[accessReviews]; n != 1 {
			t.Errorf("%d reviews of one access", n)
		}
		check("get", false, "healthz", "proxy")
		check("create", false, "proxy")
		check("create", false, "proxy")
		if n := server.asked[accessReviews]; n != 4 {
			t.Errorf("%d reviews, want 4", n)
		}
		<-time.After(31 * time.Second) // what is denied is known for a shorter time
		check("create", false, "proxy")
		check("get", true, "pods")
		if n := server.asked[accessReviews]; n != 5 {
			t.Errorf("%d reviews, want 5", n)
		}
		if last := server.bodies[len(server.bodies)-1]; !strings.Contains(last, `"extra":{"k":["v"]}`) || !strings.Contains(last, `"groups":["g"]`) {
			t.Errorf("the review is %s", last)
		}
	})
}

// If the apiserver can't be asked, nobody gets in, and the next request asks again.
func TestReviewsThatFail(t *testing.T) {
	server := &apiserver{fail: errors.New("connection refused")}
	a, err := New(Options{NodeName: "n1", TokenReview: true, TokenTTL: time.Minute, AllowTTL: time.Minute, DenyTTL: time.Minute, Post: server.post})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(withToken("good")); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnauthorized) {
		t.Errorf("%v", err)
	}
	u := &user.DefaultInfo{Name: "sa"}
	err = a.Authorize(t.Context(), u, Attributes{Verb: "get", Subresources: []string{"pods", "proxy"}})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	server.fail = nil
	shows(t, a, withToken("good"), "sa g system:authenticated")
	if err := a.Authorize(t.Context(), u, Attributes{Verb: "get", Subresources: []string{"pods", "proxy"}}); err != nil {
		t.Error(err)
	}
}

func TestAlwaysAllow(t *testing.T) {
	a, err := New(Options{AlwaysAllow: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Authorize(t.Context(), &user.DefaultInfo{Name: "x"}, AttributesOf("POST", "/v1alpha1/release")); err != nil {
		t.Error(err)
	}
}
