package kubeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// All writes through this API are refused with the reason.
func TestWritesAreRefused(t *testing.T) {
	a := serve(t, journal.Options{})
	a.change(config.ADD, "file", "a/x=1")
	for form, client := range a.clientsets(t) {
		t.Run(form, func(t *testing.T) {
			pods := client.CoreV1().Pods("a")
			pod := podOf("file", "a", "x", "2")
			configMaps := client.CoreV1().ConfigMaps("a")
			for name, write := range map[string]struct {
				method string
				do     func(ctx context.Context) error
			}{
				"create": {"POST", func(ctx context.Context) error { return errorOf(pods.Create(ctx, pod, metav1.CreateOptions{})) }},
				"update": {"PUT", func(ctx context.Context) error { return errorOf(pods.Update(ctx, pod, metav1.UpdateOptions{})) }},
				"patch": {"PATCH", func(ctx context.Context) error {
					return errorOf(pods.Patch(ctx, "x", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}))
				}},
				"delete": {"DELETE", func(ctx context.Context) error { return pods.Delete(ctx, "x", metav1.DeleteOptions{}) }},
				"delete all": {"DELETE", func(ctx context.Context) error {
					return pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
				}},
				"update the status": {"PUT", func(ctx context.Context) error { return errorOf(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})) }},
				"another resource": {"POST", func(ctx context.Context) error {
					return errorOf(configMaps.Create(ctx, &v1.ConfigMap{}, metav1.CreateOptions{}))
				}},
			} {
				t.Run(name, func(t *testing.T) {
					err := write.do(t.Context())
					want := write.method + " is not supported: podconfigd is read-only; change pods at their source"
					if !apierrors.IsMethodNotSupported(err) || !strings.HasPrefix(err.Error(), want) {
						t.Errorf("%v, want %s", err, want)
					}
				})
			}
		})
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		code, answer := a.do(t, method, "/api/v1/namespaces/a/pods/x", "", "{}").read(t)
		var status metav1.Status
		if err := json.Unmarshal([]byte(answer), &status); err != nil || code != http.StatusMethodNotAllowed || status.Reason != metav1.StatusReasonMethodNotAllowed {
			t.Errorf("%s: %d %s", method, code, answer)
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
