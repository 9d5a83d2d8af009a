// Package apistatus makes the answers to requests that fail: statuses of the Kubernetes API.
//
//	return apistatus.New(http.StatusNotFound, "resyncing pod a/b: no such pod")
package apistatus

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotImplemented is the reason for what this configuration can't answer. The Kubernetes API has none.
const NotImplemented metav1.StatusReason = "NotImplemented"

// reasons has the reason of each code, as in the Kubernetes API.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:            metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:          metav1.StatusReasonUnauthorized,
	http.StatusForbidden:             metav1.StatusReasonForbidden,
	http.StatusNotFound:              metav1.StatusReasonNotFound,
	http.StatusMethodNotAllowed:      metav1.StatusReasonMethodNotAllowed,
	http.StatusNotAcceptable:         metav1.StatusReasonNotAcceptable,
	http.StatusRequestTimeout:        metav1.StatusReasonTimeout,
	http.StatusConflict:              metav1.StatusReasonConflict,
	http.StatusGone:                  metav1.StatusReasonExpired,
	http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
	http.StatusRequestURITooLong:     metav1.StatusReasonBadRequest,
	http.StatusTooManyRequests:       metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError:   metav1.StatusReasonInternalError,
	http.StatusNotImplemented:        NotImplemented,
	http.StatusBadGateway:            metav1.StatusReasonServiceUnavailable,
	http.StatusServiceUnavailable:    metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:        metav1.StatusReasonTimeout,
}

// Status returns the status of a failure. Its reason follows from the code.
func Status(code int, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reasons[code],
		Message:  message,
	}
}

// New returns an error with the status.
func New(code int, message string) error {
	return &apierrors.StatusError{ErrStatus: *Status(code, message)}
}

// nothing says what to use instead of podconfigd for what only a kubelet does with containers: logs, commands, ports.
const nothing = "podconfigd runs nothing in containers, and reads nothing from them: use crictl on the node"

// commands are the commands of kubectl and crictl for the subresources of a pod that its kubelet serves.
var commands = map[string]string{"log": "logs", "exec": "exec", "attach": "attach", "portforward": "port-forward"}

// Instead returns what to use instead of a path of the Kubernetes API, as in
// /api/v1/namespaces/default/pods/web/log. It is empty for all other paths.
func Instead(path string) string {
	below, ok := strings.CutPrefix(path, "/api/v1/namespaces/")
	if parts := strings.Split(below, "/"); ok && len(parts) == 4 && parts[1] == "pods" && commands[parts[3]] != "" {
		return InsteadOf(commands[parts[3]]) + ", or kubectl with a kubeconfig of the apiserver"
	}
	return ""
}

// InsteadOf returns what to use instead of a command of kubectl. It is empty for commands that are not for containers.
func InsteadOf(kubectl string) string {
	switch kubectl {
	case "cp":
		return nothing
	case "logs", "exec", "attach", "port-forward":
		return nothing + ", for example crictl " + kubectl
	}
	return ""
}
