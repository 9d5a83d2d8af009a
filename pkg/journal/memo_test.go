package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// computed requests a value twice and returns the number of times that it is computed.
func computed(m *Memo, key any) (times int) {
	for range 2 {
		_, _ = Once(m, key, func() (int, error) { times++; return times, nil })
	}
	return times
}

// Clients choose the selections. So a set caches only some values, and only while it is
// one of the newest.
func TestASetKeepsLittle(t *testing.T) {
	j := newJournal(Options{})
	before := j.Revision()
	for i := range memoized + 11 {
		appendSet(j, update(config.UPDATE, fmt.Sprintf("p=%d", i)))
	}
	reading, err := j.After(before+2, nil, 1000) // after the first update and the bookmark
	if err != nil {
		t.Fatal(err)
	}
	for i, set := range reading.Sets {
		want := 1
		if i < 10 {
			want = 2
		}
		if got := computed(&set.Memo, "key"); got != want {
			t.Errorf("set %d of %d computes %d times what it is asked for twice", i, len(reading.Sets), got)
		}
	}
	kept, newest := 0, &reading.Sets[len(reading.Sets)-1].Memo
	for i := range 1000 {
		if computed(newest, i) == 1 {
			kept++
		}
	}
	if kept != maxDerived-1 {
		t.Errorf("a set keeps %d other values, want %d", kept, maxDerived-1)
	}
}

// Concurrent callers share one computed value.
func TestMemoIsShared(t *testing.T) {
	var m Memo
	var computed [maxDerived]atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for key := range maxDerived {
				value, err := Once(&m, key, func() (int, error) { return int(computed[key].Add(1)), nil })
				if value != 1 || err != nil {
					t.Errorf("key %d: %d, %v", key, value, err)
				}
			}
		})
	}
	all.Wait()
}
