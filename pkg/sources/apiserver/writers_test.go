package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// A PodWriter makes the requests of a kubelet's mirror client. It reads credentials again when
// they are refused.
func TestPodWriter(t *testing.T) {
	var requests atomic.Int32
	var last atomic.Pointer[string]
	server := httptest.NewTLSServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		text := r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		last.Store(&text)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") != "Bearer new":
			w.WriteHeader(nethttp.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"no","code":401}`)
		case r.Method == nethttp.MethodDelete:
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		case r.Method == nethttp.MethodGet:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(nethttp.StatusTooManyRequests)
		default:
			_ = json.NewEncoder(w).Encode(&v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid"}})
		}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writer := NewPodWriter(path, "test")
	defer writer.Close()
	use := func(token string) {
		conf := components.NewKubeconfig(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		conf.AuthInfos["user"].Token = token
		components.WriteKubeconfig(t, path, conf)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	if _, err := writer.Create(t.Context(), pod); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a kubeconfig: %v", err)
	}
	use("old")
	if _, err := writer.Create(t.Context(), pod); !apierrors.IsUnauthorized(err) || requests.Load() != 2 {
		t.Errorf("with a token that is not accepted: %v after %d requests", err, requests.Load())
	}
	use("new")
	made, err := writer.Create(t.Context(), pod)
	if err != nil || made.UID != "uid" || !strings.HasPrefix(*last.Load(), "POST /api/v1/namespaces/ns/pods application/vnd.kubernetes.protobuf ") {
		t.Errorf("%v, %v: %s", made, err, *last.Load())
	}
	patched, err := writer.PatchStatus(t.Context(), "ns", "a", []byte(`{"status":{}}`))
	if want := `PATCH /api/v1/namespaces/ns/pods/a/status application/merge-patch+json {"status":{}}`; err != nil || patched.UID != "uid" || *last.Load() != want {
		t.Errorf("%v, %v: %s", patched, err, *last.Load())
	}
	if _, err := writer.Delete(t.Context(), "ns", "a", "uid"); err != nil || !strings.HasPrefix(*last.Load(), "DELETE /api/v1/namespaces/ns/pods/a ") || !strings.Contains(*last.Load(), "uid") {
		t.Errorf("%v: %s", err, *last.Load())
	}
	requests.Store(0)
	if _, err := writer.Get(t.Context(), "ns", "a"); !apierrors.IsTooManyRequests(err) || requests.Load() != 1 {
		t.Errorf("with too many requests: %v after %d requests", err, requests.Load())
	} else if seconds, asked := apierrors.SuggestsClientDelay(err); !asked || seconds != 7 {
		t.Errorf("it asks for a wait of %d seconds: %t", seconds, asked)
	}
}

// An answer that is no pod, for example that of a proxy, is an error.
func TestPodWriterGetsNoPod(t *testing.T) {
	server := httptest.NewTLSServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	components.WriteKubeconfig(t, path, components.NewKubeconfig(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	writer := NewPodWriter(path, "test")
	defer writer.Close()
	for name, request := range map[string]func() (*v1.Pod, error){
		"get": func() (*v1.Pod, error) { return writer.Get(t.Context(), "ns", "a") },
		"create": func() (*v1.Pod, error) {
			return writer.Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
		},
		"patch": func() (*v1.Pod, error) { return writer.PatchStatus(t.Context(), "ns", "a", []byte("{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			if pod, err := request(); pod != nil || err == nil || !strings.Contains(err.Error(), "expected a pod") {
				t.Errorf("%s: %v, %v", name, pod, err)
			}
		})
	}
}
