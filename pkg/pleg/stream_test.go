package pleg

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stream is trusted when it has announced a change, until it breaks or a list shows a change that it did not announce. Lists
// go on in any case.
func TestTrust(t *testing.T) {
	start := []State{StateCreated, StateRunning}
	tests := map[string]struct {
		do        func(t *testing.T, m *model, r *receiver)
		evented   bool
		reason    string
		fallbacks int64
	}{
		"nothing happens": {func(*testing.T, *model, *receiver) {}, false, "the event stream has announced no change yet", 0},
		"a change is announced": {func(_ *testing.T, m *model, _ *receiver) {
			m.steps("p", "a", start...)
		}, true, "", 0},
		"a change is announced after a list": {func(_ *testing.T, m *model, _ *receiver) {
			m.mute(func() { m.steps("p", "a", start...) })
			pass(DefaultRelistPeriod)
			m.mu.Lock()
			m.send(EventStarted, "a")
			m.mu.Unlock()
		}, true, "", 0},
		"a mute stream": {func(_ *testing.T, m *model, _ *receiver) {
			m.mute(func() { m.steps("p", "a", start...) })
		}, false, "a list showed a change of container a that no event announced", 0},
		"a stream that becomes mute": {func(_ *testing.T, m *model, _ *receiver) {
			m.steps("p", "a", start...)
			pass(time.Minute)
			m.mute(func() { m.step("p", "a", StateExited) })
		}, false, "a list showed a change of container a that no event announced", 1},
		"each second event is lost": {func(_ *testing.T, m *model, _ *receiver) {
			for _, id := range []string{"a", "b", "c", "d"} {
				m.steps("p", id, start...)
				m.mute(func() { m.steps("p", "lost-"+id, start...) })
				pass(10 * time.Second)
			}
			m.steps("p", "e", start...)
		}, false, "a list showed a change of container lost-d that no event announced", 1},
		"it announces changes again for long": {func(_ *testing.T, m *model, _ *receiver) {
			m.mute(func() { m.steps("p", "a", start...) })
			pass(unprovenFor + 10*time.Second)
			m.steps("p", "b", start...)
		}, true, "", 0},
		"a start that fails": {func(_ *testing.T, m *model, _ *receiver) { // containerd has no event for that
			m.steps("p", "a", start...)
			m.step("p", "b", StateCreated)
			m.mute(func() { m.step("p", "b", StateExited) })
		}, true, "", 0},
		"the stream breaks": {func(_ *testing.T, m *model, _ *receiver) {
			m.steps("p", "a", start...)
			pass(time.Second)
			m.mu.Lock()
			m.noEvents = true
			m.mu.Unlock()
			m.breakStream()
		}, false, "no such method", 1},
		"the stream is there again": {func(_ *testing.T, m *model, _ *receiver) {
			m.steps("p", "a", start...)
			m.breakStream()
			pass(time.Minute)
			m.step("p", "a", StateExited)
		}, true, "", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(1)
				r := read(t, Options{Runtime: m})
				pass(5 * time.Second)
				test.do(t, m, r)
				pass(10 * time.Second)
				s := r.Status()
				if s.Evented != test.evented || s.Fallbacks != test.fallbacks || !strings.Contains(s.StreamError, test.reason) || (s.StreamError == "") != test.evented {
					t.Errorf("evented %t, %d fallbacks, reason %q", s.Evented, s.Fallbacks, s.StreamError)
				}
				before := s.Relists
				pass(time.Minute)
				if n := r.Status().Relists - before; n < 58 {
					t.Errorf("%d lists in a minute", n)
				}
				r.stop()
			})
		})
	}
}

// manners are how runtimes give events. Each is what the runtime does with an event; nil for a runtime without a stream.
var manners = map[string]func(n int) (sends bool){
	"no stream, as containerd 1.6":                        nil,
	"each event once, to one of two, as containerd 1.7":   func(n int) bool { return n%2 == 0 },
	"each event, as containerd 2":                         func(int) bool { return true },
	"a stream that ends at once, as CRI-O without events": func(int) bool { panic("there is no stream") },
	"a mute stream":         func(int) bool { return false },
	"the first events only": func(n int) bool { return n < 20 },
}

// docs/reference/limits.md: whatever a runtime does with its events, what it has is known two relist periods after a change.
func TestHowLongWhatCanBeWrong(t *testing.T) {
	for name, sends := range manners {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(1)
				m.slow = DefaultRelistPeriod / 4 // the request and the answer of a list
				m.noEvents = sends == nil
				if strings.Contains(name, "ends at once") {
					m.streamErr = ErrNoEvents
				}
				r := read(t, Options{Runtime: m})
				pass(5 * time.Second)
				final := make(map[string]State)
				for i := range 100 {
					id, to := fmt.Sprint("c", i/4), State(i%4+1)%StateUnknown
					switch step := func() { m.step("p", id, to) }; {
					case sends == nil, m.streamErr != nil, sends(i):
						step()
					default:
						m.mute(step)
					}
					final[id] = to
					if i%3 == 0 { // changes can be close together
						continue
					}
					pass(2 * DefaultRelistPeriod)
					for id, want := range final {
						found, _ := r.FindContainer(id)
						got := found.Container.State
						if !found.Ended.IsZero() {
							got = StateNone
						}
						if got != want {
							t.Fatalf("%v after change %d: container %s is %v, want %v", 2*DefaultRelistPeriod, i, id, got, want)
						}
					}
				}
				r.stop()
			})
		})
	}
}

// Events of before the stream was opened, as containerd 2 keeps them, are not new. The list has what there is.
func TestOldEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(1)
		m.keeps = true
		for i := range 100 {
			m.steps("p", fmt.Sprint("old", i), StateCreated, StateRunning, StateExited)
			if i%2 == 0 {
				m.step("p", fmt.Sprint("old", i), StateNone)
			}
		}
		for i := range 50 {
			m.mute(func() { m.steps("p", fmt.Sprint("old", 2*i+1), StateNone) })
		}
		m.steps("p", "now", StateCreated, StateRunning)
		pass(time.Hour)
		r := read(t, Options{Runtime: m})
		pass(20 * time.Second)
		expect(t, r, "ContainerStarted p/now")
		if found, known := r.FindContainer("old1"); known {
			t.Errorf("a container that was gone before the start is known: %+v", found)
		}
		m.step("p", "now", StateExited)
		expect(t, r, "ContainerDied p/now 3")
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
		if n := strings.Count(r.log.String(), "Only lists show the changes of the runtime"); n != 1 {
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
