package apiserver

import (
	"encoding/pem"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/test/components"
)

// A MetadataReader asks for nothing but metadata, and reads credentials again when they are refused.
func TestMetadataReader(t *testing.T) {
	server := httptest.NewTLSServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("Content-Type", "application/json")
		fail := func(code int, reason string) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+reason+`","message":"no"}`)
		}
		switch accept := r.Header.Get("Accept"); {
		case r.Method != nethttp.MethodGet, r.URL.RawQuery != "":
			t.Errorf("%s %s", r.Method, r.URL)
		case r.Header.Get("Authorization") != "Bearer new":
			fail(nethttp.StatusUnauthorized, "Unauthorized")
		case r.URL.Path == "/apis/apps/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}`)
		case r.URL.Path == "/api/v1": // without apiVersion, as a real one
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`)
		case strings.Count(accept, ",")+1 != strings.Count(accept, ";as=PartialObjectMetadata;"):
			t.Errorf("%s accepts %s", r.URL, accept)
		case strings.HasSuffix(r.URL.Path, "/web"):
			_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web","uid":"uid","labels":{"a":"b"}}}`)
		case strings.HasSuffix(r.URL.Path, "/status"):
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		default:
			fail(nethttp.StatusForbidden, "Forbidden")
		}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	reader := NewMetadataReader(path, "test")
	defer reader.Close()
	use := func(token string) {
		conf := components.NewKubeconfig(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
		conf.AuthInfos["user"].Token = token
		components.WriteKubeconfig(t, path, conf)
	}
	const deployments = "/apis/apps/v1/namespaces/ns/deployments/"
	use("old")
	if _, err := reader.Get(t.Context(), deployments+"web"); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token that is not accepted: %v", err)
	}
	use("new")
	if object, err := reader.Get(t.Context(), deployments+"web"); err != nil || object.UID != "uid" || object.Labels["a"] != "b" {
		t.Errorf("%+v, %v", object, err)
	}
	if list, err := reader.Resources(t.Context(), "/apis/apps/v1"); err != nil || len(list.APIResources) != 1 || list.APIResources[0].Name != "deployments" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := reader.Resources(t.Context(), "/api/v1"); err != nil || len(list.APIResources) != 1 || list.APIResources[0].Name != "pods" {
		t.Errorf("the core group: %+v, %v", list, err)
	}
	if _, err := reader.Get(t.Context(), deployments+"secret"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `user "user" of kubeconfig`) {
		t.Errorf("forbidden: %v", err)
	}
	if object, err := reader.Get(t.Context(), deployments+"status"); object != nil || err == nil || !strings.Contains(err.Error(), "expected the metadata of an object") {
		t.Errorf("another object: %+v, %v", object, err)
	}
}
