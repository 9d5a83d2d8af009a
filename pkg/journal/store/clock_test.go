package store

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The clock is set back by an hour, then by a year, while the log is written and between two
// starts. Revisions only grow, no set and no segment is lost, and the history since a time has
// all records since that time.
func TestAClockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		var back atomic.Int64
		opts := options(files)
		opts.MaxAge = 24 * time.Hour
		opts.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		p, recovered := start(t, opts)
		instance := recovered.Instance
		m := newModel(1, recovered)
		for round := range 12 {
			if round%4 == 3 {
				back.Add(int64([]time.Duration{time.Hour, 365 * 24 * time.Hour}[round/4%2]))
			}
			for range 20 {
				m.now = opts.Now()
				if c := p.append(m.set()); c != (Commit{instance, true}) {
					t.Fatalf("round %d: %+v", round, c)
				}
				<-time.After(time.Second)
			}
			if round%2 == 0 {
				continue
			}
			files = killed(p, files)
			opts.FS = files
			p, recovered = start(t, opts)
			if !recovered.Resumed || recovered.Revision != m.revision {
				t.Fatalf("round %d: %+v", round, recovered)
			}
			m.begin(recovered)
		}
		p.end()
		equal(t, "state", final(recovered), m.pods)
		all := wanted(instance, m.sets)
		equal(t, "history", read(t, files, HistoryOptions{}), all)
		for n := 0; n < len(all); n += 10 {
			since := all[n].Time
			var want []Record
			for _, r := range all {
				if !r.Time.Before(since) {
					want = append(want, r)
				}
			}
			equal(t, "history since "+since.String(), read(t, files, HistoryOptions{Since: since}), want)
		}
	})
}

// A machine without a battery for its clock starts in 1970 and gets the time later. JSON can
// still represent the revisions after years of that.
func TestAClockThatStartsIn1970(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		opts := options(files)
		var known atomic.Bool
		opts.Now = func() time.Time {
			if known.Load() {
				return time.Now()
			}
			return time.Unix(60, 0)
		}
		for range 20 {
			for range 2 {
				p, recovered := start(t, opts)
				m := newModel(1, recovered)
				p.append(m.set())
				files = killed(p, files)
				if m.revision >= 1<<53/1000 {
					t.Fatalf("revision %d", m.revision)
				}
				opts.FS = files
				known.Store(!known.Load())
			}
		}
	})
}
