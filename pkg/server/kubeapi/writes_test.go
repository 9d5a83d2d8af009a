package kubeapi

import (
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
		pods := client.CoreV1().Pods("a")
		pod := podOf("file", "a", "x", "2")
		for write, do := range map[string]func() error{
			"POST": func() error { _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); return err },
			"PUT":  func() error { _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); return err },
			"PATCH": func() error {
				_, err := pods.Patch(t.Context(), "x", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
				return err
			},
			"DELETE":  func() error { return pods.Delete(t.Context(), "x", metav1.DeleteOptions{}) },
			"DELETE ": func() error { return pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}) },
			"PUT ":    func() error { _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); return err },
			"POST ": func() error {
				_, err := client.CoreV1().ConfigMaps("a").Create(t.Context(), &v1.ConfigMap{}, metav1.CreateOptions{})
				return err
			},
		} {
			err := do()
			want := strings.TrimSpace(write) + " is not supported: podconfigd is read-only; change pods at their source"
			if !apierrors.IsMethodNotSupported(err) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s, %s: %v, want %s", form, write, err, want)
			}
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		code, answer := a.do(t, method, "/api/v1/namespaces/a/pods/x", "", "{}").read(t)
		var status metav1.Status
		if err := json.Unmarshal([]byte(answer), &status); err != nil || code != http.StatusMethodNotAllowed || status.Reason != metav1.StatusReasonMethodNotAllowed {
			t.Errorf("%s: %d %s", method, code, answer)
		}
	}
}
