package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// callCodes has the code of each status that a call can fail with. All other errors mean
// that the daemon can't answer now.
var callCodes = map[metav1.StatusReason]codes.Code{
	metav1.StatusReasonBadRequest:      codes.InvalidArgument,
	metav1.StatusReasonNotFound:        codes.NotFound,
	metav1.StatusReasonForbidden:       codes.PermissionDenied,
	metav1.StatusReasonConflict:        codes.FailedPrecondition,
	metav1.StatusReasonTooManyRequests: codes.ResourceExhausted,
}

// callError returns the gRPC error for an error that may have a status; nil for none.
func callError(err error) error {
	if err == nil {
		return nil
	}
	code, ok := callCodes[apierrors.ReasonForError(err)]
	if !ok {
		code = codes.Unavailable
	}
	return status.Error(code, err.Error())
}

// invalid returns the gRPC error for a request that is invalid.
func invalid(err error) error { return status.Error(codes.InvalidArgument, err.Error()) }
