// Package apistatus makes the answers to requests that fail: statuses of the Kubernetes API.
//
//	return failure.New(http.StatusNotFound, "resyncing pod a/b: no such pod")
package apistatus

import (
	"net/http"

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
