package podsapi

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestChangesOfAPod: the first change is passed on at once, later changes at most once a second. The last change is
// always passed on.
func TestChangesOfAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStatuses()
		defer s.stop()
		began, taken := time.Now(), 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 3 {
				<-s.notices
				if uids := s.dueChanges(); len(uids) != 1 {
					t.Errorf("%v", uids)
				}
				taken++
				t.Log(time.Since(began), s.message())
			}
		}()
		for restarts := range int32(10) { // never when a change is due
			if _, err := s.event(encoded(t, "a", time.Since(began).String(), restarts), false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(150 * time.Millisecond) //nolint:forbidigo // virtual time
		}
		<-done
		if took := time.Since(began); taken != 3 || took != 2*time.Second || s.message() != "1.35s" {
			t.Errorf("%d changes were passed on in %v, the last one is of %s", taken, took, s.message())
		}
	})
}
