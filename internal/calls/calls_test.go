package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// The owner calls the functions with its own context, and the result comes back.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		m, failed := New(), errors.New("failed")
		result := make(chan error, 1)
		go func() {
			result <- m.Do(t.Context(), func(ctx context.Context) error {
				if ctx.Value(key{}) == nil {
					return errors.New("it is not the context of the owner")
				}
				return failed
			})
		}()
		synctest.Wait() // the owner starts later
		(<-m.Calls())(context.WithValue(t.Context(), key{}, true))
		if err := <-result; !errors.Is(err, failed) {
			t.Errorf("%v", err)
		}
	})
}

// A caller whose context ends does not wait for the owner, neither before nor during the call.
func TestTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, received := range []bool{false, true} {
			m, gone := New(), errors.New("gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			result := make(chan error, 1)
			go func() { result <- m.Do(ctx, func(context.Context) error { return nil }) }()
			synctest.Wait()
			var call func(context.Context)
			if received {
				call = <-m.Calls()
			}
			cancel(gone)
			if err := <-result; !errors.Is(err, gone) {
				t.Errorf("received %t: %v", received, err)
			}
			if call != nil {
				call(t.Context()) // it does not block
			}
		}
	})
}

func TestClose(t *testing.T) {
	m := New()
	m.Close()
	if err := m.Do(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
}
