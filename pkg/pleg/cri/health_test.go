package cri_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/pleg"
)

// impatient are options for tests of a runtime that does not answer.
var impatient = pleg.Options{RelistPeriod: 100 * time.Millisecond, RelistThreshold: 2 * time.Second, CallTimeout: 500 * time.Millisecond}

// sick waits until the generator is unhealthy, with a reason that contains the text.
func (w *observer) sick(t *testing.T, why string) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the health is: %v", err)
		}
	}()
	until(t, "unhealthy, with "+why, func() bool {
		_, err = w.Healthy()
		for _, part := range []string{"pleg was last seen active ", " ago; threshold 2s", why} {
			if err == nil || !strings.Contains(err.Error(), part) {
				return false
			}
		}
		return true
	})
}

func (w *observer) recovers(t *testing.T) {
	t.Helper()
	until(t, "healthy again", func() bool { ok, _ := w.Healthy(); return ok })
}
