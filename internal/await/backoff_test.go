package await

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestFailed(t *testing.T) {
	now := time.Now()
	waits := wait.Backoff{Duration: time.Second, Cap: 3 * time.Second}
	var b Backoff
	if b.Waits(now) {
		t.Error("waits before a failure")
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		b.Failed(now, waits, nil)
		if end := now.Add(want); b.Wait != want || !b.Next.Equal(end) || !b.Waits(end.Add(-1)) || b.Waits(end) {
			t.Errorf("failure %d: %+v, want %v", i, b, want)
		}
	}
	for asked, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 1 << 30: 3 * time.Second} {
		b = Backoff{}
		b.Failed(now, waits, apierrors.NewTooManyRequests("", asked))
		if b.Wait != time.Second || !b.Next.Equal(now.Add(want)) {
			t.Errorf("asked for %d seconds: %+v", asked, b)
		}
	}
	waits.Jitter = 0.5
	for range 100 {
		b = Backoff{}
		b.Failed(now, waits, nil)
		if in := b.Next.Sub(now); b.Wait != time.Second || in < time.Second || in > 3*time.Second/2 {
			t.Errorf("with jitter: %+v", b)
		}
	}
}
