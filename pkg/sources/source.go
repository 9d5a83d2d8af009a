// Package sources declares the interface of a source of pods. Each source is a package
// below this one.
//
// A [Source] reads pods from one place. Each time these pods change, it sends the full
// set on its channel, which is
// [github.com/podconfigd/podconfigd/pkg/config.PodConfig.Channel] of its name. The
// comment of [Source] has its rules.
//
// # How to write a source
//
// Package [github.com/podconfigd/podconfigd/pkg/sources/sourcetest] tests these rules. A
// new source needs:
//
//  1. A package below this one with a Source, its Options, New and Run. Run is one goroutine
//     that owns the state and selects on every change. A [Board] has the status.
//  2. A contract_test.go that passes sourcetest.Run a real place, which the test can change,
//     break and repair, and tests of the source's own behavior.
//  3. A name in package config, so that ParseSource accepts it; an entry in
//     Config.specs and opener.open of pkg/daemon; options in api/config; a member of
//     SourceStatus in api/stream.
//  4. A row in docs/explanation/architecture.md. If the kubelet has such a source, also a row for each
//     difference in docs/explanation/kubelet-differences.md.
//
// No other part of the daemon changes: the Mux has a channel for each name, and the node
// is ready after each source has sent a set.
package sources

import (
	"bytes"
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
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Source reads the pods of one place. Its constructor only allocates. Run is called at
// most once.
//
// In the life of a source:
//  1. The constructor gets what was [Restored].
//  2. Run sends the first set when it is known.
//  3. Run sends a set at each change of the pods. Status is read at any time.
//  4. The context ends, and Run returns.
//  5. If the source is a [Predecessor], its successor gets the last set.
//
// These rules apply:
//
//   - Run sends the full set of pods on sets: first as soon as the set is known, even if it is
//     empty, then each time it changes. Until the first set, neither the source nor the node is
//     ready.
//   - Unavailable is not empty. A source that can't read sends nothing and keeps its last set.
//     Its status has the reason and the time.
//   - Every send also selects on the context. Run returns the context's cause within a second
//     of the context's end. By then, every goroutine that it started has ended. The exception is a
//     goroutine that a system call blocks. It sends nothing any more.
//   - Run never closes sets.
//   - A pod is shared and read-only after it was sent. A pod that did not change is sent as the
//     same pointer, so the cost of a set depends on the changes.
//   - A set names its origin, without secrets.
//   - After a restart, [Restored] counts as the source's last set. Unavailable is not empty then
//     either, and a pod that is held is the restored pointer.
//   - Names and UIDs of the pods in a set are distinct. If two pods conflict, the source
//     chooses one by its own rule and reports the other.
type Source interface {
	Run(ctx context.Context, sets chan<- config.SourceSet) error
	// Status returns the status of the source. Any goroutine can call it at any time.
	// Seen and Pods are zero: the merge has them.
	Status() v1alpha1.SourceStatus
}

// Predecessor is a source that can hand its last set to its successor, as after a restart. A source gets a successor
// while the daemon runs, for example because its configuration changed.
type Predecessor interface {
	// Last returns the last set of the source. It is called after Run has returned.
	Last() Restored
}

// Restored is the last set of a source before a restart. The pods have the annotations of
// the merge. Until the source sends its first set, these pods count. A source that holds
// one of them, for example because its manifest is bad now, sends the same pointer.
type Restored struct {
	Pods []*v1.Pod
	// Files has the manifest file of each pod, by UID, if the pods are from files.
	Files map[types.UID]*config.File
	// Attributes are the attributes of the set.
	Attributes map[string]string
}

// ReasonDuplicate is the reason of a manifest that is shadowed. Package manifest and
// each source have further reasons.
const ReasonDuplicate = "Duplicate"

// ReasonCopy is the reason of a manifest that is accepted, although its name looks like a copy of another file.
const ReasonCopy = "LooksLikeCopy"

const (
	// linesAround is the number of lines that are kept before and after a fault, and maxLine the
	// length of a line in bytes. So a fault keeps 1.4 KiB.
	linesAround = 3
	maxLine     = 200
)

// FaultLines returns the lines of a manifest around a line, or nil if it does not have that line.
func FaultLines(data []byte, line int) *v1alpha1.ManifestFault {
	if line <= 0 {
		return nil
	}
	found := &v1alpha1.ManifestFault{Line: line, FirstLine: max(1, line-linesAround)}
	number := 0
	for text := range bytes.Lines(data) {
		if number++; number > line+linesAround {
			break
		}
		if number < found.FirstLine {
			continue
		}
		text = bytes.TrimRight(text, "\r\n")
		end := ""
		if len(text) > maxLine {
			text, end = text[:maxLine], "…"
		}
		found.Lines = append(found.Lines, strings.ToValidUTF8(string(text), "\uFFFD")+end) // a copy: data can be large
	}
	if number < line {
		return nil
	}
	return found
}

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
