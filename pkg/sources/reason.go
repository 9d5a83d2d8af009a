package sources

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason is why an attempt to read a source failed, as the label of a metric.
type Reason string

// The reasons.
const (
	ReasonNotFound         Reason = "not_found"
	ReasonPermission       Reason = "permission_denied"
	ReasonUnauthorized     Reason = "unauthorized"
	ReasonForbidden        Reason = "forbidden"
	ReasonDescriptors      Reason = "too_many_open_files"
	ReasonConnection       Reason = "connection"
	ReasonTimeout          Reason = "timeout"
	ReasonTLS              Reason = "tls"
	ReasonTooManyRequests  Reason = "too_many_requests"
	ReasonExpired          Reason = "expired"
	ReasonHTTPClientError  Reason = "http_4xx"
	ReasonHTTPServerError  Reason = "http_5xx"
	ReasonUnexpectedAnswer Reason = "unexpected_answer"
	ReasonInvalid          Reason = "invalid_manifest"
	ReasonCredentials      Reason = "credentials"
	ReasonReplaced         Reason = "replaced"
	ReasonUnknownNode      Reason = "unknown_node"
	ReasonWatchEnded       Reason = "watch_ended"
	ReasonOther            Reason = "other"
)

// because is an error with a reason.
type because struct {
	error

	reason Reason
}

func (e because) Unwrap() error { return e.error }

// Because returns the error with a reason, for ReasonOf; nil for nil.
func Because(reason Reason, err error) error {
	if err == nil {
		return nil
	}
	return because{err, reason}
}

// ReasonOf returns the reason of an error of a source: the reason given to Because, or else the reason that
// follows from the kind of the error.
func ReasonOf(err error) Reason {
	if b, ok := errors.AsType[because](err); ok {
		return b.reason
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return reasonOfStatus(status.Status())
	}
	for _, kind := range []struct {
		is     func(error) bool
		reason Reason
	}{
		{is(context.DeadlineExceeded, os.ErrDeadlineExceeded), ReasonTimeout},
		{isTLS, ReasonTLS},
		{is(syscall.EMFILE, syscall.ENFILE), ReasonDescriptors},
		{is(fs.ErrNotExist, syscall.ENOTDIR), ReasonNotFound},
		{is(fs.ErrPermission), ReasonPermission},
		{isConnection, ReasonConnection}, // after those of files: each error of a system call is a net.Error
	} {
		if kind.is(err) {
			return kind.reason
		}
	}
	return ReasonOther
}

// is reports whether an error is one of the targets.
func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func isTLS(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return verification || authority || header || alert
}

func isConnection(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || is(io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET)(err)
}

// reasonOfStatus returns the reason of an apiserver's answer. An apiserver can send any text as
// its reason.
func reasonOfStatus(status metav1.Status) Reason {
	switch code := int(status.Code); {
	case status.Reason == metav1.StatusReasonExpired || code == http.StatusGone:
		return ReasonExpired
	case code == http.StatusGatewayTimeout:
		return ReasonTimeout
	default:
		return ReasonOfCode(code)
	}
}

// ReasonOfCode returns the reason of an HTTP status.
func ReasonOfCode(code int) Reason {
	switch {
	case code == http.StatusUnauthorized:
		return ReasonUnauthorized
	case code == http.StatusForbidden:
		return ReasonForbidden
	case code == http.StatusNotFound:
		return ReasonNotFound
	case code == http.StatusTooManyRequests:
		return ReasonTooManyRequests
	case code >= 400 && code < 500:
		return ReasonHTTPClientError
	case code >= 500 && code < 600:
		return ReasonHTTPServerError
	}
	return ReasonUnexpectedAnswer
}

// RetryAfter returns the wait of a Retry-After header, whose value is a number of seconds
// or a date. It returns most for any longer wait, and 0 for an invalid value.
func RetryAfter(value string, now time.Time, most time.Duration) time.Duration {
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
