package store

import (
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

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
