package store

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
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
				if c := p.append(m.set()); c != (journal.Commit{Instance: instance, Stored: true}) {
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

// A clock jumps forward: from 29 years behind to the right time, as on a board without a battery when NTP
// answers after its boot, or a month ahead for two seconds. What is younger than MaxAge stays.
func TestAClockThatJumpsForward(t *testing.T) {
	for _, test := range []struct {
		name string
		// jump returns how far the clock is off after the time since the boot.
		jump func(time.Duration) time.Duration
	}{
		{"29 years behind until NTP answers", func(up time.Duration) time.Duration {
			if up < 5*time.Minute {
				return -29 * 365 * 24 * time.Hour
			}
			return 0
		}},
		{"30 days ahead for two seconds", func(up time.Duration) time.Duration {
			if up >= 5*time.Minute && up < 5*time.Minute+2*time.Second {
				return 30 * 24 * time.Hour
			}
			return 0
		}},
	} {
		for _, cleanly := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, ", stopped cleanly ", cleanly), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					files := newMemFS()
					opts := options(files)
					booted := time.Now()
					opts.Now = func() time.Time { return time.Now().Add(test.jump(time.Since(booted))) }
					p, recovered := start(t, opts)
					m := newModel(1, recovered)
					stored := 0
					for boot := range 20 / testutil.Stride(2) { // in less than a day
						for range 12 {
							m.now = opts.Now()
							p.append(m.set())
							stored++
							<-time.After(time.Minute)
						}
						if cleanly {
							p.end()
						} else {
							files = killed(p, files)
						}
						booted = time.Now()
						opts.FS, opts.BootID = files, fmt.Sprint("boot-", boot)
						p, recovered = start(t, opts)
						m.begin(recovered)
						<-time.After(2 * time.Second) // old segments are deleted
					}
					p.end()
					sets := make(map[string]bool)
					for _, r := range read(t, files, HistoryOptions{}) {
						if r.Gap == "" {
							sets[fmt.Sprint(r.Instance, r.Time)] = true
						}
					}
					// A killed process leaves a gap, and sets without updates have no record.
					shown := make(map[string]bool)
					for _, set := range m.sets {
						for _, u := range set.Updates {
							if len(u.Pods) > 0 {
								shown[fmt.Sprint(set.Revision)] = true
							}
						}
					}
					if len(sets) < len(shown) {
						t.Errorf("the history has %d of %d sets", len(sets), len(shown))
					}
				})
			})
		}
	}
}

// What is older than MaxAge goes, also if no process lives for long.
func TestAgeOverRestarts(t *testing.T) {
	testutil.Exhaustive(t)
	for _, cleanly := range []bool{false, true} {
		t.Run(fmt.Sprint("stopped cleanly ", cleanly), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := newMemFS()
				opts := options(files)
				opts.MaxAge = 24 * time.Hour
				p, recovered := start(t, opts)
				m := newModel(1, recovered)
				for range 50 {
					m.now = time.Now()
					p.append(m.set())
					<-time.After(50 * time.Minute)
					if cleanly {
						p.end()
					} else {
						files = killed(p, files)
					}
					<-time.After(10 * time.Minute)
					opts.FS = files
					p, recovered = start(t, opts)
					m.begin(recovered)
				}
				<-time.After(2 * time.Second)
				oldest := read(t, files, HistoryOptions{})[0].Time
				p.end()
				if age := time.Since(oldest); age > 28*time.Hour || age < 24*time.Hour {
					t.Errorf("the oldest record is %v old", age)
				}
			})
		})
	}
}
