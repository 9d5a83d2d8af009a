package store

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// errCrash is the error of a file system whose process is dead.
var errCrash = errors.New("crash")

// crash stops a process at its n-th operation. A part of a write may be kept.
type crash struct {
	mu    sync.Mutex
	at, n int
	part  bool
	// only is the kind of operation that is counted; all if empty.
	only string
	// what is the operation that it happened at.
	what string
}

func (c *crash) before(op, name string, size int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n < c.at && c.only != "" && op != c.only {
		return size, nil
	}
	c.n++
	if c.n < c.at {
		return size, nil
	}
	if c.n > c.at {
		return 0, errCrash
	}
	c.what = op + " " + name
	if c.part {
		return size / 2, errCrash
	}
	return 0, errCrash
}

func (c *crash) operation() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.what
}

// A process is killed before each of its operations, and within each write: during a start,
// commits, rolls, and the end. Nothing that was shown as stored is lost, and what was shown under
// another instance never counts as stored.
func TestACrashAtEachStep(t *testing.T) {
	testutil.Exhaustive(t)
	ops := make(map[string]int)
	for _, kind := range []*crash{{}, {part: true}, {only: "rename"}} {
		for at := 1; ; at++ {
			c := &crash{at: at, part: kind.part, only: kind.only}
			synctest.Test(t, func(t *testing.T) { crashOnce(t, c) })
			if c.operation() == "" {
				break // it came to its end
			}
			op, _, _ := strings.Cut(c.operation(), " ")
			ops[op]++
		}
	}
	t.Logf("crashes: %v", ops)
	for _, op := range []string{"mkdir", "lock", "list", "open", "create", "write", "sync", "syncdir", "remove", "rename"} {
		if ops[op] == 0 {
			t.Errorf("no crash at %s", op)
		}
	}
}

// crashOnce has one crash. Segments are only renamed if they are damaged. In old ones, that
// is found after the start.
func crashOnce(t *testing.T, c *crash) {
	t.Helper()
	files := newMemFS()
	opts := options(files)
	opts.SegmentBytes, opts.MaxBytes = 2<<10, 16<<10
	p, recovered := start(t, opts)
	m := newModel(9, recovered)
	for range 40 {
		p.append(m.set())
		synctest.Wait() // a new segment is begun now
	}
	p.end()
	if c.only == "rename" {
		opts.ReplayBytes, opts.MaxBytes = 1, 1<<20
		names := segmentsOf(files)
		for _, name := range names[:len(names)-1] {
			data := *files.files[name]
			data[len(data)/2]++
		}
	}

	instance, stored := recovered.Instance, m.revision // what must come back
	states := map[int64]map[sourceUID]kept{m.revision: maps.Clone(m.pods)}
	files.setFault(c.before)
	p, recovered = start(t, opts)
	broken := recovered.Instance != instance
	m.begin(recovered)
	for range 60 {
		set := m.set()
		if !broken {
			states[m.revision] = maps.Clone(m.pods)
		}
		commit := p.append(set)
		switch {
		case commit.Stored && !broken:
			stored = m.revision
		case commit.Stored:
		case commit.Instance == instance:
			t.Fatalf("crash at %s: a set that is not stored is shown under the instance of those that are", c.operation())
		default:
			broken = true
		}
		synctest.Wait()
		if m.random.IntN(4) == 0 {
			<-time.After(time.Second) // it is synced, and what is too much deleted
		}
	}
	p.end()
	synctest.Wait()
	if files.open != 0 {
		t.Errorf("crash at %s: %d files are left open", c.operation(), files.open)
	}
	dead := files.clone()
	opts.FS = dead
	p, again := start(t, opts)
	p.end()
	if c.operation() == "" {
		stored = m.revision
	}
	if !again.Resumed || again.Instance != instance {
		t.Fatalf("crash at %s: the instance is new: %s", c.operation(), again.Reason)
	}
	if again.Revision < stored {
		t.Fatalf("crash at %s: stored up to %d, and %d came back", c.operation(), stored, again.Revision)
	}
	want, made := states[again.Revision]
	if !made {
		t.Fatalf("crash at %s: revision %d, which is none of a set", c.operation(), again.Revision)
	}
	equal(t, "crash at "+c.operation(), final(again), want)
}
