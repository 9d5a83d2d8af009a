package pleg

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFallingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		r := read(t, Options{Runtime: m})
		pass(5 * time.Second)
		relists := func(during time.Duration) int64 {
			before := r.Status().Relists
			pass(during)
			return r.Status().Relists - before
		}
		if n := relists(time.Hour); n < 11 || n > 13 {
			t.Errorf("%d lists in an hour with events", n)
		}
		m.mu.Lock()
		m.noEvents = true
		m.mu.Unlock()
		m.breakStream()
		if n := relists(time.Minute); n < 58 {
			t.Errorf("%d lists in a minute without events", n)
		}
		if s := r.Status(); s.Evented || s.Fallbacks != 1 || !strings.Contains(s.StreamError, "no such method") {
			t.Errorf("after the stream broke: %+v", s)
		}
		m.mu.Lock()
		m.noEvents = false
		m.mu.Unlock()
		pass(unimplementedRetry + 5*time.Second)
		if s := r.Status(); !s.Evented || s.StreamError != "" {
			t.Errorf("after it came back: %+v", s)
		}
		r.stop()
	})
}

func TestRelistOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		r := read(t, Options{Runtime: m, RelistOnly: true})
		pass(time.Minute)
		m.step("a", "c-a", StateCreated)
		m.step("a", "c-a", StateRunning)
		expect(t, r)
		pass(DefaultRelistPeriod)
		expect(t, r, "ContainerStarted a/c-a")
		if s := r.Status(); s.Evented || s.Relists < 58 || m.tries() > 0 {
			t.Errorf("events were asked for %d times; status %+v", m.tries(), s)
		}
		r.stop()
	})
}

// The log says once that a runtime has no events. The generator detects when it has them.
func TestNoEventsIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		m.noEvents = true
		r := read(t, Options{Runtime: m})
		pass(time.Hour)
		r.stop()
		if n := strings.Count(r.log.String(), "The runtime has no event stream, relisting"); n != 1 {
			t.Errorf("it was said %d times:\n%s", n, r.log.String())
		}
		if n := m.tries(); n < 10 || n > 13 {
			t.Errorf("events were asked for %d times in an hour", n)
		}
	})
}

// A stream that ends as soon as it opens is never relied on. It is retried forever, with
// waits.
func TestTheStreamIsRetriedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		m.streamErr = errors.New("it broke")
		r := read(t, Options{Runtime: m})
		for hour := range 3 {
			before := m.tries()
			pass(time.Hour)
			n := m.tries() - before
			if least := int(time.Hour / (2 * streamRetries.Cap)); n < least || n > 3*least {
				t.Errorf("hour %d: events were asked for %d times", hour, n)
			}
		}
		s := r.Status()
		if s.Evented || s.Fallbacks > 0 || s.StreamError != "it broke" || s.Relists < 3*3590 {
			t.Errorf("status %+v", s)
		}
		r.stop()
		if lines := strings.Count(r.log.String(), "\n"); lines > 3 {
			t.Errorf("%d lines of log:\n%.1000s", lines, r.log.String())
		}
	})
}

// A runtime that hangs returns no error for long. What it has is not known in the meantime.
func TestBehindARuntimeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := relisted(t, Options{}, "a")
		hang := func(slow time.Duration) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.slow = slow
		}
		if err := r.Behind(time.Time{}); err != nil {
			t.Errorf("the runtime answers: %v", err)
		}
		hang(math.MaxInt64)
		_, stop := r.Await("next") // lists at once
		pass(answerTime)
		if err := r.Behind(time.Time{}); err != nil {
			t.Errorf("after %v: %v", answerTime, err)
		}
		pass(time.Second + minDemandPause)
		if err := r.Behind(time.Time{}); err == nil || !strings.Contains(err.Error(), "the container runtime has not answered for 2s") {
			t.Errorf("while the list hangs: got %v", err)
		}
		hang(0)
		pass(2 * defaultCallTimeout)
		if err := r.Behind(time.Time{}); err != nil {
			t.Errorf("the runtime answers again: %v", err)
		}
		stop()
		r.stop()
	})
}
