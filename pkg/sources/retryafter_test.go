package sources

import (
	"cmp"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-1": 0, "soon": 0,
		"Sat, 21 Nov 2026 00:01:00 GMT": time.Minute, "Fri, 20 Nov 2026 00:01:00 GMT": 0,
		// A century, in each format, and numbers that do not fit into an integer.
		"3155760000": time.Hour, "Sat, 21 Nov 2126 00:00:00 GMT": time.Hour, "Fri, 31 Dec 9999 23:59:59 GMT": time.Hour,
		"9223372036854775807": time.Hour, "99999999999999999999": time.Hour, "-99999999999999999999": 0,
	} {
		t.Run(cmp.Or(value, "empty"), func(t *testing.T) {
			if got := RetryAfter(value, now, time.Hour); got != want {
				t.Errorf("%q: %v, want %v", value, got, want)
			}
		})
	}
}
