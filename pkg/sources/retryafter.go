package sources

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns the wait of a Retry-After header, whose value is a number of seconds
// or a date. It returns most for any longer wait, and 0 for an invalid value.
func RetryAfter(value string, now time.Time, most time.Duration) time.Duration {
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
