package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Over https, a user may be allowed to read the pods, and not the container runtime.
func TestGetPodsWithoutTheRuntime(t *testing.T) {
	for code, want := range map[int]string{http.StatusForbidden: "", http.StatusNotFound: "", http.StatusInternalServerError: "500 Internal Server Error"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/pods" {
				w.WriteHeader(code)
				return
			}
			_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"web","namespace":"default"},"spec":{"containers":[{"name":"c"}]}}]}`)
		}))
		t.Cleanup(server.Close)
		var out bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetArgs([]string{"get", "pods", "--server", server.URL})
		err := root.ExecuteContext(t.Context())
		switch {
		case want == "" && (err != nil || !strings.HasPrefix(out.String(), "NAMESPACE   NAME   SOURCE   CONTAINERS   SEEN\ndefault     web ")):
			t.Errorf("%d: %v, %s", code, err, &out)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%d: %v, want %s", code, err, want)
		}
	}
}

// An earlier version of the daemon refuses the parameter with which /pods has resourceVersions.
func TestGetPodsFromAnEarlierVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/pods":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Has("resourceVersions"):
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"b","namespace":"default"}},{"metadata":{"name":"a","namespace":"default"}}]}`)
		}
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"get", "pods", "--server", server.URL, "-o", "name"})
	if err := root.ExecuteContext(t.Context()); err != nil || out.String() != "pod/a\npod/b\n" {
		t.Errorf("%v, %s", err, &out)
	}
}
