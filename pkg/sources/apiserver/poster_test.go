package apiserver

import (
	"encoding/pem"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podconfigd/podconfigd/test/components"
)

// A Poster follows changes of the kubeconfig, and says whose credentials were refused.
func TestPoster(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewTLSServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(nethttp.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"no","code":401}`)
			return
		}
		if r.URL.Path == "/apis/forbidden" {
			w.WriteHeader(nethttp.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"user a cannot create b","code":403}`)
			return
		}
		if r.Method != nethttp.MethodPost || r.URL.Path != "/apis/x" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		w.WriteHeader(nethttp.StatusCreated)
		_, _ = w.Write(append([]byte("answer to "), body...))
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	poster := NewPoster(path, "test")
	defer poster.Close()
	if _, err := poster.Post(t.Context(), "/apis/x", []byte("{}")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a kubeconfig: %v", err)
	}
	use := func(token string) {
		conf := components.NewKubeconfig(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		conf.AuthInfos["user"].Token = token
		components.WriteKubeconfig(t, path, conf)
	}
	use("old")
	_, err := poster.Post(t.Context(), "/apis/x", []byte("{}"))
	if err == nil || !strings.Contains(err.Error(), `refused the credentials of user "user" of kubeconfig`) || requests.Load() != 2 {
		t.Errorf("with a token that is not accepted: %v after %d requests", err, requests.Load())
	}
	use("new")
	answer, err := poster.Post(t.Context(), "/apis/x", []byte("{}"))
	if err != nil || string(answer) != "answer to {}" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := poster.Post(t.Context(), "/apis/forbidden", []byte("{}")); err == nil || !strings.Contains(err.Error(), "user a cannot create b") {
		t.Errorf("the error lacks the message of the apiserver: %v", err)
	}
}
