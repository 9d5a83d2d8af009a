package await

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ended := errors.New("ended")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { end(ended) })
		if err := For(ctx, time.Hour); !errors.Is(err, ended) || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// still is a context on a machine that stands still for a time when something waits for it.
type still struct {
	context.Context
	by []time.Duration
}

func (s *still) Done() <-chan struct{} {
	if len(s.by) > 0 {
		<-time.After(s.by[0])
		s.by = s.by[1:]
	}
	return s.Context.Done()
}

func TestRunning(t *testing.T) {
	for name, test := range map[string]struct {
		by   []time.Duration // for each part
		want time.Duration
	}{
		"without a pause":     {nil, 4 * time.Second},
		"a short pause":       {[]time.Duration{0, 0, time.Second}, 5 * time.Second},
		"a standstill":        {[]time.Duration{0, time.Minute}, time.Minute + 5*time.Second},
		"at the end":          {[]time.Duration{0, 0, 0, time.Minute}, time.Minute + 5*time.Second},
		"several":             {[]time.Duration{time.Hour, 0, time.Minute, 0}, time.Hour + time.Minute + 6*time.Second},
		"always, with an end": {slices.Repeat([]time.Duration{9 * time.Second}, 100), 40 * 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if err := Running(&still{t.Context(), test.by}, 4*time.Second); err != nil || time.Since(began) != test.want {
					t.Errorf("%v after %v, want %v", err, time.Since(began), test.want)
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := Timeout(t.Context(), time.Minute)
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cancel()
		ctx, cancel = Timeout(t.Context(), time.Minute)
		cancel()
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestSignal(t *testing.T) {
	changed := make(chan struct{}, 1)
	Signal(changed)
	Signal(changed) // does not block
	if len(changed) != 1 {
		t.Error("there is no signal")
	}
}
