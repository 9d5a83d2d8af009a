package pleg

import (
	"testing"
	"testing/synctest"
	"time"
)

// New periods count at once, not after the end of a long one. The same periods again change nothing.
func TestSetPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := relisted(t, Options{RelistPeriod: 24 * time.Hour, RelistThreshold: 48 * time.Hour}, "a")
		before := r.Status().Relists
		pass(time.Hour)
		if n := r.Status().Relists - before; n > 0 {
			t.Errorf("%d lists within an hour", n)
		}
		r.SetPeriods(t.Context(), 10*time.Second, time.Minute)
		pass(101 * time.Second)
		if n := r.Status().Relists - before; n < 9 || n > 11 {
			t.Errorf("%d lists in 101 seconds", n)
		}
		before = r.Status().Relists
		for range 11 {
			r.SetPeriods(t.Context(), 10*time.Second, time.Minute)
			pass(9 * time.Second)
		}
		if n := r.Status().Relists - before; n < 9 {
			t.Errorf("%d lists in 99 seconds with the same periods", n)
		}
		if healthy, err := r.Healthy(); !healthy {
			t.Error(err)
		}
		r.SetPeriods(t.Context(), time.Hour, 2*time.Hour)
		before = r.Status().Relists
		pass(59 * time.Minute)
		if n := r.Status().Relists - before; n > 0 {
			t.Errorf("%d lists within the new period", n)
		}
		r.stop()
	})
}
