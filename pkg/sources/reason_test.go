package sources_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// The reason of an error is one of few, whatever a server says.
func TestReasons(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for want, errs := range map[sources.Reason][]error{
		sources.ReasonTimeout:         {context.DeadlineExceeded, apierrors.NewTimeoutError("late", 1)},
		sources.ReasonConnection:      {dial, net.ErrClosed, &net.DNSError{}},
		sources.ReasonTLS:             {x509.UnknownAuthorityError{}},
		sources.ReasonDescriptors:     {&fs.PathError{Op: "open", Err: syscall.EMFILE}, &net.OpError{Op: "dial", Err: syscall.EMFILE}},
		sources.ReasonNotFound:        {&fs.PathError{Op: "open", Err: syscall.ENOENT}, sources.Because(sources.ReasonOfCode(404), errors.New("404"))},
		sources.ReasonPermission:      {&fs.PathError{Op: "open", Err: syscall.EACCES}},
		sources.ReasonUnauthorized:    {apierrors.NewUnauthorized("no")},
		sources.ReasonForbidden:       {apierrors.NewForbidden(metav1.SchemeGroupVersion.WithResource("pods").GroupResource(), "", nil)},
		sources.ReasonExpired:         {apierrors.NewResourceExpired("old")},
		sources.ReasonTooManyRequests: {apierrors.NewTooManyRequests("slow", 1)},
		sources.ReasonHTTPServerError: {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 503, Reason: "what a server invents"}}},
		sources.ReasonHTTPClientError: {sources.Because(sources.ReasonOfCode(418), errors.New("418"))},
		sources.ReasonOther:           {errors.New("what is this")},
	} {
		t.Run(string(want), func(t *testing.T) {
			for _, err := range errs {
				if got := sources.ReasonOf(fmt.Errorf("reading: %w", err)); got != want {
					t.Errorf("%v: %s, want %s", err, got, want)
				}
			}
		})
	}
	if err := sources.Because(sources.ReasonTLS, nil); err != nil {
		t.Errorf("no error has a reason: %v", err)
	}
}
