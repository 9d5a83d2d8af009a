package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A note is stored as the sets are: after any failure, it is tried again with them.
func TestANoteComesBack(t *testing.T) {
	full := errors.New("no space left on device")
	fails := func(ops string) func(string, string, int) (int, error) {
		return func(op, _ string, size int) (int, error) {
			if strings.Contains(ops, op) {
				return 0, full
			}
			return size, nil
		}
	}
	for name, test := range map[string]struct {
		before func(*memFS) // the start
		during func(*memFS, *process, *model)
	}{
		"kill":                {},
		"full at the start":   {before: func(fs *memFS) { fs.setFault(fails("create write")) }},
		"full later":          {during: func(fs *memFS, p *process, m *model) { fs.setFault(fails("create write")); p.append(m.set()) }},
		"fsync fails":         {during: func(fs *memFS, _ *process, _ *model) { fs.setFault(fails("sync")); <-time.After(3 * time.Second) }},
		"directory removed":   {during: func(fs *memFS, _ *process, _ *model) { fs.removeAll("/state") }},
		"many segments":       {during: func(_ *memFS, p *process, m *model) { manySets(p, m) }},
		"a segment is made":   {during: hangWhileASegmentIsMade},
		"segments of no sets": {during: func(_ *memFS, p *process, _ *model) { <-time.After(30 * 24 * time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := newMemFS()
				if test.before != nil {
					test.before(files)
				}
				opts := options(files)
				opts.ReplayBytes = 1 // the last segment
				p, recovered := start(t, opts)
				m := newModel(1, recovered)
				p.log.Remember("first")
				p.append(m.set())
				if test.during != nil {
					test.during(files, p, m)
				}
				p.log.Remember("second")
				files.setFault(nil)
				if name == "many segments" {
					manySets(p, m)
				}
				<-time.After(maxRetry + 3*time.Second)
				if s := p.log.Status(); s.Err != nil {
					t.Fatal(s.Err)
				}
				for range 3 { // also of a process that appends no set
					opts.FS = files.clone()
					p.end()
					if p, recovered = start(t, opts); recovered.Note != "second" {
						t.Fatalf("the note is %q", recovered.Note)
					}
					files, _ = opts.FS.(*memFS)
				}
				p.end()
			})
		})
	}
}

// hangWhileASegmentIsMade makes the log fail, and hang for a while when it makes the next segment.
func hangWhileASegmentIsMade(fs *memFS, p *process, m *model) {
	fs.setFault(func(op, _ string, size int) (int, error) { return 0, errCrash })
	p.append(m.set())
	hangs, hang := make(chan struct{}, 1), time.After(20*time.Second)
	fs.setFault(func(op, name string, size int) (int, error) {
		if op == "create" && strings.HasSuffix(name, segmentSuffix) {
			hangs <- struct{}{}
			<-hang
		}
		return size, nil
	})
	<-hangs
}

func manySets(p *process, m *model) {
	for range 200 {
		p.append(m.set())
	}
}

// A note alone changes no instance while nothing can be stored.
func TestANoteWhileNothingIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(1, recovered)
		p.append(m.set())
		files.setFault(func(op, _ string, size int) (int, error) {
			if op == "write" {
				return 0, errCrash
			}
			return size, nil
		})
		p.log.Remember("note")
		<-time.After(3 * time.Second)
		if p.log.Status().Err == nil {
			t.Fatal("not noticed")
		}
		p.log.Remember("note 2")
		files.setFault(nil)
		<-time.After(maxRetry)
		if c := p.append(m.set()); c.Instance != recovered.Instance || !c.Stored {
			t.Errorf("%+v", c)
		}
		opts := options(files.clone())
		p.end()
		p, again := start(t, opts)
		p.end()
		if again.Note != "note 2" {
			t.Errorf("%+v", again.Note)
		}
	})
}

// A journal whose segments are all damaged still has the note, as long as a header with it can be read.
func TestANoteOfADamagedJournal(t *testing.T) {
	for name, at := range map[string]func(afterHeader int64, size int) int64{
		"in the middle":    func(_ int64, size int) int64 { return int64(size / 2) },
		"in each snapshot": func(afterHeader int64, _ int) int64 { return afterHeader },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := newMemFS()
				p, recovered := start(t, options(files))
				m := newModel(1, recovered)
				p.log.Remember("note")
				manySets(p, m)
				p.end()
				p, recovered = start(t, options(files)) // its segment has the note in its header
				m.begin(recovered)
				p.append(m.set())
				p.end()
				for name, data := range files.files {
					dir, base := filepath.Split(name)
					number, aside, ok := segmentNumber(base)
					if !ok || aside {
						continue
					}
					_, r, err := openSegment(files, dir, number, base)
					if err != nil {
						t.Fatal(err)
					}
					_ = r.file.Close() // only read
					(*data)[at(r.offset, len(*data))] ^= 1
				}
				p, again := start(t, options(files))
				p.end()
				if again.Note != "note" || len(again.Problems) == 0 {
					t.Errorf("%q, %v", again.Note, again.Problems)
				}
			})
		})
	}
}

// At random, notes and sets are stored, writes fail, and processes are killed. A start that has a set also has the note
// from before it.
func TestNotesAndSetsAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 44))
				files := newMemFS()
				p, recovered := start(t, options(files))
				m := newModel(seed, recovered)
				last, due := 0, 0 // numbers of the last note, and of the one that must come back
				for range 300 {
					switch r.IntN(8) {
					case 0:
						last++
						p.log.Remember(fmt.Sprint(last))
					case 1:
						op := []string{"write", "sync", "create"}[r.IntN(3)]
						files.setFault(func(o, _ string, size int) (int, error) {
							if o == op {
								return size / 2, errCrash
							}
							return size, nil
						})
					case 2:
						files.setFault(nil)
					case 3:
						<-time.After(time.Duration(r.IntN(40)) * time.Second)
					case 4:
						files.setFault(nil)
						killed := files.clone()
						p.end()
						files = killed
						p, recovered = start(t, options(files))
						m.begin(recovered)
						note := 0
						_, _ = fmt.Sscan(recovered.Note, &note)
						if note < due || note > last {
							t.Fatalf("note %d, want %d to %d", note, due, last)
						}
						last = note
						due = note
					default:
						note := last
						if c := p.append(m.set()); c.Stored {
							due = note
						}
					}
				}
				p.end()
			})
		})
	}
}
