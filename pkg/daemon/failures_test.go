package daemon

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

func TestFailuresHaveAStatusForClients(t *testing.T) {
	for _, test := range []struct {
		err     error
		reason  metav1.StatusReason
		message string
	}{
		{fmt.Errorf("releasing source http: %w", config.ErrNoSource), metav1.StatusReasonNotFound,
			`releasing source http: there is no such source: "podconfigctl status" lists them`},
		{fmt.Errorf("releasing source http: %w", config.ErrNotHeld), metav1.StatusReasonNotFound, "releasing source http: no set of it is held"},
		{&config.RemovesMoreError{HeldSet: config.HeldSet{Removes: 4, Pods: 5}, Source: "file", Most: 3}, metav1.StatusReasonConflict,
			"releasing source file: the set that is held now removes 4 of 5 pods, more than 3: look at what is missing, " +
				`then run "podconfigctl release file --removes=4"`},
		{fmt.Errorf("resyncing pod a/b: %w", syncloop.ErrNoPod), metav1.StatusReasonNotFound, "resyncing pod a/b: no such pod"},
		{errors.New("the daemon stops"), metav1.StatusReasonUnknown, "the daemon stops"},
	} {
		if err := failure(test.err); err.Error() != test.message || apierrors.ReasonForError(err) != test.reason {
			t.Errorf("%v: %v, %s, want %s, %s", test.err, err, apierrors.ReasonForError(err), test.message, test.reason)
		}
	}
	err := failure(&syncloop.TooSoonError{Wait: 1500 * time.Millisecond})
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 2 {
		t.Errorf("%v: wait for %d s, %t", err, seconds, ok)
	}
	if err := failure(nil); err != nil {
		t.Error(err)
	}
}
