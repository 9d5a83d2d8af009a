package store

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// After each kind of failure the stream goes on from memory under a new instance, and
// later, on its own, what is shown is stored again. The segment is not used again.
func TestAFailureHeals(t *testing.T) {
	for _, op := range []string{"write", "sync", "gone"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := newMemFS()
				opts := options(files)
				opts.SegmentBytes = 1 << 20
				p, recovered := start(t, opts)
				m := newModel(1, recovered)
				for range 5 {
					p.append(m.set())
				}
				<-time.After(3 * time.Second)
				written := 0
				files.setFault(func(o, name string, size int) (int, error) {
					if strings.HasSuffix(name, segmentName(1)) && o == "write" {
						written++
					}
					if op == "gone" && o == "mkdir" || op != "gone" && o == op || op != "gone" && o == "create" {
						return size / 3, fmt.Errorf("%s %s: no space left on device", o, name)
					}
					return size, nil
				})
				switch op {
				case "gone":
					files.removeAll("/state")
				case "sync":
					if c := p.append(m.set()); c != (journal.Commit{Instance: recovered.Instance, Stored: true}) {
						t.Fatalf("%+v", c)
					}
				}
				if op != "write" {
					<-time.After(3 * time.Second) // it is noticed now
					if err := p.log.Status().Err; err == nil {
						t.Fatal("not noticed")
					}
				}
				first := p.append(m.set())
				if first.Stored || first.Instance == recovered.Instance {
					t.Fatalf("%+v", first)
				}
				for range 100 {
					if c := p.append(m.set()); c != first {
						t.Fatalf("%+v after %+v", c, first)
					}
					<-time.After(time.Second)
				}
				last := written
				if synctest.Wait(); files.open != 0 {
					t.Errorf("%d files are open", files.open)
				}
				files.setFault(nil)
				<-time.After(maxRetry + time.Second)
				if err := p.log.Status().Err; err != nil {
					t.Fatalf("not healed: %v", err)
				}
				if c := p.append(m.set()); c != (journal.Commit{Instance: first.Instance, Stored: true}) {
					t.Fatalf("%+v", c)
				}
				if written != last {
					t.Error("the segment that failed was written again")
				}
				killed := files.clone()
				p.end()
				opts.FS = killed
				p, again := start(t, opts)
				p.end()
				if !again.Resumed || again.Instance != first.Instance || again.Revision != m.revision || len(again.Sets) != 1 {
					t.Fatalf("%+v", again)
				}
				equal(t, "state", final(again), m.pods)
			})
		})
	}
}

// A failure resets nobody if no set comes while it lasts.
func TestAFailureWithoutASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(1, recovered)
		p.append(m.set())
		files.setFault(func(op, _ string, size int) (int, error) {
			if op == "sync" {
				return size, errCrash
			}
			return size, nil
		})
		<-time.After(1100 * time.Millisecond)
		if p.log.Status().Err == nil {
			t.Fatal("not noticed")
		}
		files.setFault(nil)
		<-time.After(5 * time.Second)
		if c := p.append(m.set()); c != (journal.Commit{Instance: recovered.Instance, Stored: true}) {
			t.Errorf("%+v", c)
		}
		p.end()
	})
}

// A write that hangs holds the stream for a second, not longer. When it returns, it has no effect.
func TestAWriteThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(1, recovered)
		p.append(m.set())
		hang := make(chan struct{})
		files.setFault(func(op, name string, size int) (int, error) {
			if op == "write" && strings.HasSuffix(name, segmentName(1)) {
				<-hang
			}
			return size, nil
		})
		begun := time.Now()
		first := p.append(m.set())
		if took := time.Since(begun); took > stall || first.Stored || first.Instance == recovered.Instance {
			t.Fatalf("%+v after %v", first, took)
		}
		for range 10 {
			begun := time.Now()
			if c := p.append(m.set()); c.Instance != first.Instance {
				t.Fatalf("%+v", c)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("the next set waited %v", took)
			}
			<-time.After(time.Second)
		}
		if c := p.append(m.set()); c != (journal.Commit{Instance: first.Instance, Stored: true}) {
			t.Errorf("not healed: %+v", c)
		}
		close(hang)
		synctest.Wait()
		for range 5 {
			p.append(m.set())
		}
		killed := files.clone()
		p.end()
		p, again := start(t, options(killed))
		p.end()
		if !again.Resumed || again.Instance != first.Instance || again.Revision != m.revision {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}

// An fsync that hangs delays no set, however many come in the meantime.
func TestAnFsyncThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(1, recovered)
		m.padding = 512 << 10
		p.append(m.set())
		hang := make(chan struct{})
		files.setFault(func(op, _ string, size int) (int, error) {
			if op == "sync" {
				<-hang
			}
			return size, nil
		})
		for range 100 / testutil.Stride(4) {
			begun := time.Now()
			if c := p.append(m.set()); !c.Stored {
				t.Fatalf("%+v", c)
			}
			if took := time.Since(begun); took > 0 {
				t.Fatalf("a set waited %v", took)
			}
			<-time.After(100 * time.Millisecond)
		}
		close(hang)
		<-time.After(5 * time.Second)
		p.append(m.set())
		killed := files.clone()
		p.end()
		if n := len(segmentsOf(killed)); n < 2 {
			t.Error("no new segment was begun after that")
		}
		p, again := start(t, options(killed))
		p.end()
		if !again.Resumed || again.Revision != m.revision {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}

// A new segment can't be begun, and not even removed. The present one goes on, for a start and for the history.
func TestASegmentThatCantBeBegun(t *testing.T) {
	for _, op := range []string{"create", "write"} {
		synctest.Test(t, func(t *testing.T) {
			files := newMemFS()
			p, recovered := start(t, options(files))
			m := newModel(1, recovered)
			p.append(m.set())
			files.setFault(func(o, name string, size int) (int, error) {
				if (o == op || o == "remove") && !strings.HasSuffix(name, segmentName(1)) {
					return size / 2, errNoSpace
				}
				return size, nil
			})
			for range 100 {
				if c := p.append(m.set()); c != (journal.Commit{Instance: recovered.Instance, Stored: true}) {
					t.Fatalf("%s: %+v", op, c)
				}
				<-time.After(time.Second)
			}
			equal(t, op+": history", read(t, files, HistoryOptions{}), wanted(recovered.Instance, m.sets))
			left := files.clone()
			files.setFault(nil)
			<-time.After(2 * time.Second)
			p.append(m.set())
			if n := len(segmentsOf(files)); n < 2 {
				t.Errorf("%s: no segment was begun after that", op)
			}
			last := m.sets[len(m.sets)-2].Revision
			p.end()
			p, again := start(t, options(left))
			p.end()
			if !again.Resumed || again.Instance != recovered.Instance || again.Revision != last || len(again.Sets) != 101 {
				t.Errorf("%s: resumed %t at %d with %d sets: %s", op, again.Resumed, again.Revision, len(again.Sets), again.Reason)
			}
		})
	}
}
