package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A client that knows only a revision may have it from an instance that was not stored. No
// later set has a revision that was shown before, and the gaps in the revisions are no gaps
// in what is restored.
func TestRevisionsThatWereNotStoredAreNotGivenAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		// fails is the operation that fails. jump is the number of revisions that a set
		// skips, and sets the number of sets that are not stored.
		fails string
		jump  int64
		sets  int
	}{
		{"a few", "write", 0, 10},
		{"more than are reserved", "write", reserve / 32, 40},
		{"a start that can't store", "create", 0, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files := newMemFS()
				p, recovered := start(t, options(files))
				m := newModel(1, recovered)
				instance, stored := recovered.Instance, 0
				for round := range 5 {
					for range 20 {
						if c := p.append(m.set()); c != (journal.Commit{Instance: instance, Stored: true}) {
							t.Fatalf("round %d: %+v", round, c)
						}
						synctest.Wait() // a new segment is begun now
					}
					stored += 20
					revision := m.revision
					if test.fails == "create" { // two starts that can't store, one after the other
						for range 2 {
							files = killed(p, files)
							files.setFault(failing(test.fails))
							p, recovered = start(t, options(files))
							m.reserved = aboveAll(t, recovered, instance, revision, m)
							showUnstored(t, p, m, instance, test.sets, 0)
						}
					} else {
						files.setFault(failing(test.fails))
						showUnstored(t, p, m, instance, test.sets, test.jump)
					}
					m.sets = m.sets[:stored]
					files = killed(p, files)
					p, recovered = start(t, options(files))
					aboveAll(t, recovered, instance, revision, m)
					m.begin(recovered)
				}
				p.end()
				equal(t, "history", read(t, files, HistoryOptions{}), wanted(instance, m.sets))
				if n := len(recovered.Sets); n != stored {
					t.Errorf("%d sets came back, want %d", n, stored)
				}
			})
		})
	}
}

// aboveAll checks that a start resumes the instance at a revision, and numbers its sets above
// all that the model has given.
func aboveAll(t *testing.T, r *Recovered, instance string, revision int64, m *model) int64 {
	t.Helper()
	if !r.Resumed || r.Instance != instance || r.Revision != revision {
		t.Fatalf("instance %s, %d: %s; want %s, %d", r.Instance, r.Revision, r.Reason, instance, revision)
	}
	if r.Reserved < m.revision {
		t.Fatalf("revisions are given again from %d on, and were given up to %d", r.Reserved, m.revision)
	}
	return r.Reserved
}

// showUnstored appends sets that can't be stored.
func showUnstored(t *testing.T, p *process, m *model, instance string, sets int, jump int64) {
	t.Helper()
	for range sets {
		m.revision += jump
		if c := p.append(m.set()); c.Stored || c.Instance == instance {
			t.Fatalf("%+v", c)
		}
		<-time.After(time.Second)
	}
}

// killed ends a process, and returns what is there as if it had been killed.
func killed(p *process, files *memFS) *memFS {
	left := files.clone()
	p.end()
	return left
}

// failing returns a fault for each operation of a kind.
func failing(op string) func(op, name string, size int) (int, error) {
	return func(o, _ string, size int) (int, error) {
		if o == op {
			return 0, errNoSpace
		}
		return size, nil
	}
}
