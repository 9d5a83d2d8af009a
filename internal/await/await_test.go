package await

import (
	"context"
	"errors"
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

func TestSignal(t *testing.T) {
	changed := make(chan struct{}, 1)
	Signal(changed)
	Signal(changed) // does not block
	if len(changed) != 1 {
		t.Error("there is no signal")
	}
}
