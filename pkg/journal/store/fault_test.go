package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/journal"
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
	states := map[int64]map[podKey]kept{m.revision: maps.Clone(m.pods)}
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

func TestOldSegmentsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		opts := options(files)
		opts.MaxBytes, opts.MaxAge = 40<<10, time.Hour
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		for range 400 {
			p.append(m.set())
			<-time.After(time.Second)
		}
		sizes := 0
		for _, data := range files.clone().files {
			sizes += len(*data)
		}
		if status := p.log.Status(); sizes > 48<<10 || sizes < 30<<10 || int64(sizes) < status.Bytes {
			t.Errorf("%d bytes, %+v", sizes, status)
		}
		<-time.After(time.Minute)
		before := len(segmentsOf(files.clone()))
		p.append(m.set())
		for range 3 * 60 { // three hours with a set a minute
			p.append(m.set())
			<-time.After(time.Minute)
		}
		if after := segmentsOf(files.clone()); len(after) > 11 || before < 5 {
			t.Errorf("%d segments before, and after: %v", before, after)
		}
		killed := files.clone()
		p.end()
		opts.FS = killed
		p, again := start(t, opts)
		p.end()
		if !again.Resumed || again.Revision != m.revision {
			t.Errorf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}

// A process that restarts again and again without a new set removes nothing from the history.
func TestStartsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(1, recovered)
		for range 40 {
			p.append(m.set())
		}
		killed := files.clone()
		p.end()
		before := len(segmentsOf(killed))
		for i := range 100 {
			files = killed
			p, again := start(t, options(files))
			synctest.Wait()
			if i%2 == 0 {
				killed = files.clone()
			}
			p.end()
			if i%2 == 1 {
				killed = files
			}
			if !again.Resumed || again.Instance != recovered.Instance || again.Revision != m.revision || len(again.Sets) != 40 {
				t.Fatalf("start %d: %d sets: %+v", i, len(again.Sets), again)
			}
		}
		if after := len(segmentsOf(killed)); after > before+1 {
			t.Errorf("%d segments became %d", before, after)
		}
	})
}

// After the directory was removed, its files are forgotten. A new file with the same name is not
// deleted in their place.
func TestFilesOfARemovedDirectoryAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		opts := options(files)
		opts.MaxAge = time.Minute
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		for range 3 {
			p.append(m.set())
		}
		files.removeAll(opts.Dir)
		<-time.After(10 * time.Second) // it heals
		if c := p.append(m.set()); c != (journal.Commit{Instance: recovered.Instance, Stored: true}) {
			t.Fatalf("%+v", c)
		}
		for range 300 {
			<-time.After(time.Second)
			synctest.Wait()
			if s, names := p.log.Status(), segmentsOf(files.clone()); s.Err != nil || s.Segments != len(names) {
				t.Fatalf("%+v, and the files are %q", s, names)
			}
		}
		killed := files.clone()
		p.end()
		opts.FS = killed
		p, again := start(t, opts)
		p.end()
		if !again.Resumed || again.Instance != recovered.Instance {
			t.Fatalf("%+v", again)
		}
		equal(t, "state", final(again), m.pods)
	})
}

// A disk that is hardly larger than MaxBytes becomes full. Old segments make room, so that the log heals. A
// disk that is full for another reason takes at most about half of them.
func TestADiskThatIsTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		opts := options(fs)
		opts.MaxBytes = 128 << 10
		opts.SegmentBytes = opts.MaxBytes / 16
		disk := 110 << 10
		used := func() (n int) {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			for _, data := range fs.files {
				n += len(*data)
			}
			return n
		}
		fs.setFault(func(op, _ string, size int) (int, error) {
			if op != "write" || used()+size <= disk {
				return size, nil
			}
			return max(0, disk-used()), errNoSpace
		})
		p, recovered := start(t, opts)
		m := newModel(1, recovered)
		m.padding = 200
		failures := 0
		for range 2000 {
			if c := p.append(m.set()); !c.Stored {
				failures++
			}
			<-time.After(time.Second)
		}
		<-time.After(time.Minute)
		if err := p.log.Status().Err; err != nil || failures == 0 {
			t.Errorf("after %d sets that were not stored: %v", failures, err)
		}
		if failures > 200 {
			t.Errorf("%d of 2000 sets were not stored", failures)
		}

		disk = 0
		for range 100 {
			p.append(m.set())
			<-time.After(10 * time.Second)
		}
		if left := int64(used()); left < opts.MaxBytes/4 {
			t.Errorf("%d bytes are left of the history", left)
		}
		p.end()
	})
}

// A segment that can't be read for a moment at a start is kept. It is deleted together with the segments after it.
func TestAnUnreadSegmentIsDeletedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, _, _ := written(t, 60)
		oldest := segmentsOf(fs)[0]
		fs.setFault(func(op, name string, size int) (int, error) {
			if op == "open" && name == oldest {
				return 0, syscall.EIO
			}
			return size, nil
		})
		opts := options(fs)
		p, recovered := start(t, opts)
		fs.setFault(nil)
		<-time.After(time.Minute)
		if !slices.Contains(segmentsOf(fs), oldest) || len(recovered.Problems) != 1 {
			t.Fatalf("%s is deleted at once; the problems are %v", oldest, recovered.Problems)
		}
		m := newModel(2, recovered)
		p.log.SetLimits(time.Hour, 16<<10)
		for range 200 {
			p.append(m.set())
			<-time.After(time.Second)
		}
		if left := segmentsOf(fs); slices.Contains(left, oldest) {
			t.Errorf("%s is still among %v", oldest, left)
		}
		p.end()
	})
}
