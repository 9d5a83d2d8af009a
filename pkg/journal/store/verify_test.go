package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A start reads only the newest segments. Damage in an older one is found after it: the
// segment is set aside, and the history shows the hole. Nothing that a subscriber can resume
// from is missing, so the instance stays.
func TestDamageInASegmentThatTheStartDoesNotRead(t *testing.T) {
	for _, test := range []struct {
		name    string
		segment int
		damage  func(data []byte) []byte
	}{
		{"flipped", 2, func(data []byte) []byte { data[len(data)/2]++; return data }},
		{"cut", 2, func(data []byte) []byte { return data[:len(data)-1] }},
		{"cut in the snapshot", 2, func(data []byte) []byte { return data[:preambleBytes+200] }},
		{"the oldest", 0, func(data []byte) []byte { data[len(data)/2]++; return data }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files, m, _ := written(t, 100)
				names := segmentsOf(files)
				damaged := names[test.segment]
				data := *files.files[damaged]
				*files.files[damaged] = test.damage(data)
				kept := slices.Clone(*files.files[damaged])
				opts := options(files)
				opts.ReplayBytes = 1
				p, again := start(t, opts)
				if !again.Resumed || len(again.Problems) != 0 {
					t.Fatalf("%+v", again)
				}
				equal(t, "state", final(again), m.pods)
				<-time.After(time.Duration(len(names)+1) * syncEvery)
				m.begin(again)
				if c := p.append(m.set()); c != (journal.Commit{Instance: again.Instance, Stored: true}) {
					t.Errorf("%+v", c)
				}
				left := files.clone()
				all := slices.Sorted(maps.Keys(left.files))
				aside := slices.IndexFunc(all, func(name string) bool { return strings.HasPrefix(name, damaged+".damaged-") })
				if left.files[damaged] != nil || aside < 0 {
					t.Fatalf("not set aside: %v", all)
				}
				if !slices.Equal(*left.files[all[aside]], kept) {
					t.Error("what was set aside is not what it was")
				}
				var gaps []string
				for _, r := range read(t, files, HistoryOptions{}) {
					if r.Gap != "" {
						gaps = append(gaps, r.Gap)
					}
				}
				if len(gaps) != 1 || !strings.Contains(gaps[0], "set aside") {
					t.Errorf("the history has the gaps %q", gaps)
				}
				if n := p.log.Status().Segments; n != len(segmentsOf(left)) {
					t.Errorf("%d segments, want %v", n, segmentsOf(left))
				}
				p.end()
				p, next := start(t, opts)
				p.end()
				if !next.Resumed || next.Instance != again.Instance || next.Revision != m.revision {
					t.Errorf("%+v", next)
				}
			})
		})
	}
}

// A whole segment stays, and so does one that can't be read now.
func TestWholeSegmentsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, _, _ := written(t, 100)
		before := segmentsOf(files)
		opts := options(files)
		opts.ReplayBytes = 1
		p, _ := start(t, opts)
		files.setFault(func(op, name string, size int) (int, error) {
			if op == "open" && name == before[1] {
				return 0, errNoSpace
			}
			return size, nil
		})
		<-time.After(time.Minute)
		files.setFault(nil)
		p.end()
		for _, name := range before {
			if files.files[name] == nil {
				t.Errorf("%s is gone: %v", name, segmentsOf(files))
			}
		}
	})
}

// After a segment was set aside, it is no longer known how much of the segment before it counts.
// The segment before it stays in the history, even if a write to it was cut. This holds for any
// number of starts.
func TestStartsAfterASegmentThatWasSetAside(t *testing.T) {
	for _, test := range []struct {
		sets int // the segment is longer than the one before it, or shorter
		tail string
	}{{100, ""}, {104, ""}, {104, "cut"}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files, _, _ := written(t, test.sets)
				opts := options(files)
				opts.ReplayBytes = 1
				restart := func() {
					t.Helper()
					p, recovered := start(t, opts)
					if !recovered.Resumed || len(recovered.Problems) != 0 {
						t.Errorf("%+v", recovered)
					}
					<-time.After(time.Minute)
					p.end()
				}
				restart()
				names := segmentsOf(files)
				damaged, whole := names[len(names)-2], names[:len(names)-2]
				last := files.files[whole[len(whole)-1]]
				*last = append(*last, test.tail...)
				(*files.files[damaged])[len(*files.files[damaged])/2]++
				restart()
				if files.files[damaged] != nil {
					t.Fatal("it is not set aside")
				}
				records := read(t, files, HistoryOptions{})
				if n := len(records); !strings.Contains(records[n-1].Gap, "set aside") {
					t.Errorf("the history ends with %+v", records[n-1])
				}
				for range 3 {
					restart()
				}
				if left := segmentsOf(files); len(left) != len(whole)+1 || !slices.Equal(left[:len(whole)], whole) {
					t.Errorf("left are %v, want %v and another", left, whole)
				}
				again := read(t, files, HistoryOptions{})
				if n := len(again); n != len(records) || again[n-1].Gap != records[n-1].Gap {
					t.Errorf("the history has %d records, and ends with %+v; want %d, and %+v", n, again[n-1], len(records), records[len(records)-1])
				}
			})
		})
	}
}

// A segment is begun before the one before it is synced. In a power loss, the one before can lose its end. Then the state is that
// of the new one, and the history says what is missing.
func TestASegmentThatLostItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, m, _ := written(t, 100)
		names := segmentsOf(files)
		short := names[len(names)-2]
		*files.files[short] = (*files.files[short])[:len(*files.files[short])-100]
		opts := options(files)
		opts.BootID = "boot-2"
		p, again := start(t, opts)
		if again.Resumed || len(again.Problems) > 0 {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
		<-time.After(time.Duration(len(names)+1) * syncEvery) // all are verified
		m.begin(again)
		if c := p.append(m.set()); !c.Stored {
			t.Errorf("%+v", c)
		}
		var gaps []string
		for _, r := range read(t, files, HistoryOptions{}) {
			if r.Gap != "" {
				gaps = append(gaps, r.Gap)
			}
		}
		if len(gaps) != 2 || gaps[0] != "updates were not stored" || !strings.Contains(gaps[1], "new instance") {
			t.Errorf("the history has the gaps %q", gaps)
		}
		p.end()
		if !slices.Contains(segmentsOf(files), short) {
			t.Errorf("%s is gone: %v", short, segmentsOf(files))
		}
	})
}
