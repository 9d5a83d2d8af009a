package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// wanted returns the records of the model's sets.
func wanted(instance string, sets []*journal.Set) []Record {
	var records []Record
	pods := make(map[sourceUID]*journal.Pod)
	for _, set := range sets {
		revision := set.First
		removed, added := make(map[string]*journal.Pod), make(map[string]bool)
		for i, u := range set.Updates {
			for _, p := range u.Pods {
				added[u.Source+p.Object.Name] = added[u.Source+p.Object.Name] || i > 0 && u.Op == config.ADD
			}
		}
		for _, u := range set.Updates {
			r := Record{Time: set.Time, Instance: instance, Op: u.Op, Source: u.Source, Revision: revision, Update: u.Revision}
			for _, p := range u.Pods {
				key := sourceUID{u.Source, p.Object.UID}
				r.Pod, r.Before, r.Replaced = p, pods[key], false
				switch name := u.Source + p.Object.Name; u.Op {
				case config.REMOVE:
					removed[name] = p
					r.Replaced = added[name]
				case config.ADD:
					if r.Before == nil {
						r.Before = removed[name]
					}
				}
				pods[key] = p
				if u.Op == config.REMOVE {
					delete(pods, key)
				}
				records = append(records, r)
				r.Revision++
			}
			if len(u.Pods) == 0 {
				records = append(records, r)
			}
			revision = u.Revision + 1
		}
	}
	return records
}

func read(t *testing.T, fs FS, opts HistoryOptions) []Record {
	t.Helper()
	var records []Record
	for r, err := range History(fs, "/state", opts) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, m, _ := written(t, 100)
		all := wanted(m.instance, m.sets)
		equal(t, "all", read(t, files, HistoryOptions{}), all)
		for n := 0; n < len(all); n += 7 {
			after := all[n].Revision
			equal(t, "after a revision", read(t, files, HistoryOptions{After: after}), all[n+1:])
		}
		since := m.sets[40].Time
		n := 0
		for all[n].Time.Before(since) {
			n++
		}
		equal(t, "since a time", read(t, files, HistoryOptions{Since: since}), all[n:])
		for range History(files, "/state", HistoryOptions{}) {
			break
		}
	})
}

// The newest part is read first. Parts of which nothing is requested are not read.
func TestHistoryInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, m, _ := written(t, 100)
		data := *files.files[segmentsOf(files)[3]]
		data[len(data)/2]++ // there is a gap
		all := read(t, files, HistoryOptions{})
		for n := 7; n <= len(all); n += 7 {
			before := m.revision + 1
			if n < len(all) {
				before = all[n].Revision
			}
			var parts [][]Record
			for part := range Parts(files, "/state", HistoryOptions{Before: before, Newest: true}) {
				var records []Record
				for r, err := range part {
					if err != nil {
						t.Fatal(err)
					}
					if r.Revision < before {
						records = append(records, r)
					}
				}
				parts = append(parts, records)
			}
			slices.Reverse(parts)
			equal(t, fmt.Sprint("before ", before), slices.Concat(parts...), all[:n:n])
			if most := 1 + len(segmentsOf(files))*(n+50)/len(all); len(parts) > most {
				t.Errorf("%d parts for %d of %d records", len(parts), n, len(all))
			}
		}
	})
}

// It is the same while a daemon writes, and across stops and kills.
func TestHistoryOverStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		var m *model
		for i := range 30 {
			p, recovered := start(t, options(files))
			if m == nil {
				m = newModel(1, recovered)
			}
			for range 10 {
				p.append(m.set())
			}
			equal(t, "history", read(t, files, HistoryOptions{}), wanted(m.instance, m.sets))
			killed := files.clone()
			p.end()
			if i%2 == 0 {
				files = killed
			}
		}
	})
}

// An edited static pod is another pod. Its ADD has the version that it replaces, also for a
// reader that starts between both.
func TestHistoryOfAReplacedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(1, recovered)
		pod := func(uid types.UID, name string) *journal.Pod {
			pod := m.pod(config.FileSource, 1)
			pod.Object.UID, pod.Object.Name = uid, name
			return pod
		}
		update := func(first int64, op config.PodOperation, pods ...*journal.Pod) *journal.Update {
			return &journal.Update{First: first, Revision: first + int64(len(pods)) - 1, Op: op, Source: config.FileSource, Pods: pods}
		}
		first, other, second := pod("1", "web"), pod("2", "db"), pod("3", "web")
		r := recovered.Revision
		p.append(&journal.Set{First: r + 1, Revision: r + 2, Updates: []*journal.Update{update(r+1, config.ADD, first, other)}})
		p.append(&journal.Set{First: r + 3, Revision: r + 5, Updates: []*journal.Update{update(r+3, config.REMOVE, first, other), update(r+5, config.ADD, second)}})
		p.append(&journal.Set{First: r + 6, Revision: r + 6, Updates: []*journal.Update{update(r+6, config.ADD, other)}})
		p.end()
		for _, after := range []int64{0, r + 2, r + 4} {
			records := read(t, files, HistoryOptions{After: after})
			replaced, added := records[len(records)-2], records[len(records)-1]
			equal(t, "replaced", replaced.Before, first)
			equal(t, "before it was replaced", replacedOf(records), map[string]bool{"web": after < r+3, "db": false})
			equal(t, "added in a later set", added.Before, (*journal.Pod)(nil))
		}
	})
}

// replacedOf returns the names of the removed pods, and whether they were replaced.
func replacedOf(records []Record) map[string]bool {
	replaced := map[string]bool{"web": false, "db": false}
	for i := range records {
		if r := &records[i]; r.Replaced {
			replaced[r.Pod.Object.Name] = true
		}
	}
	return replaced
}

// A reader that goes on after a record gets exactly what follows it, or an error if some of
// that was deleted.
func TestHistoryFromARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, m, _ := written(t, 60)
		all := wanted(m.instance, m.sets)
		after := func(n int, instance string) ([]Record, error) {
			records := []Record{}
			for r, err := range History(files, "/state", HistoryOptions{After: all[n].Revision, Instance: instance}) {
				if err != nil {
					return records, err
				}
				records = append(records, r)
			}
			return records, nil
		}
		first := 0 // the first record of which all that follows is there
		for _, name := range segmentsOf(files) {
			for n := range all {
				got, err := after(n, m.instance)
				if n < first {
					if !errors.Is(err, ErrCompacted) || len(got) > 0 {
						t.Fatalf("after %d of %d, from %s on: %v, %d records", n, len(all), name, err, len(got))
					}
					continue
				}
				if n == first && n > 0 && errors.Is(err, ErrCompacted) {
					continue // revisions without a record were deleted
				}
				if err != nil {
					t.Fatalf("after %d of %d, from %s on: %v", n, len(all), name, err)
				}
				equal(t, "after a record", got, all[n+1:])
			}
			if err := files.Remove(name); err != nil {
				t.Fatal(err)
			}
			if left := read(t, files, HistoryOptions{}); len(left) > 0 {
				first = len(all) - len(left) - 1
			} else {
				first = len(all)
			}
		}
		if _, err := after(len(all)-1, "other"); !errors.Is(err, ErrCompacted) {
			t.Errorf("another instance: %v", err)
		}
	})
}

// The history has everything that was shown, each once, whatever a running daemon or a kill leaves
// half-done. This includes a new segment that is half begun.
func TestHistoryAtEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		p, recovered := start(t, options(files))
		m := newModel(3, recovered)
		p.append(m.set())
		type step struct {
			files *memFS
			shown int
		}
		var mu sync.Mutex
		var steps []step
		shown := 1
		files.setFault(func(op, _ string, size int) (int, error) {
			mu.Lock()
			steps = append(steps, step{files.clone(), shown})
			mu.Unlock()
			if op == "sync" { // takes long
				<-time.After(3 * time.Millisecond)
			}
			return size, nil
		})
		for range 60 / testutil.Stride(2) {
			p.append(m.set())
			mu.Lock()
			shown++
			mu.Unlock()
			<-time.After(time.Millisecond)
		}
		files.setFault(nil)
		p.end()
		all := wanted(m.instance, m.sets)
		for _, s := range steps {
			got := read(t, s.files, HistoryOptions{})
			if least := len(wanted(m.instance, m.sets[:s.shown])); len(got) < least || len(got) > len(all) {
				t.Fatalf("after %d sets there are %d records, want %d", s.shown, len(got), least)
			}
			equal(t, "records", got, all[:len(got):len(got)])
		}
	})
}

// What is missing is said where it is missing.
func TestHistoryHasHoles(t *testing.T) {
	gaps := func(records []Record) (gaps []string) {
		for _, r := range records {
			if r.Gap != "" {
				gaps = append(gaps, r.Gap)
			}
		}
		return gaps
	}
	t.Run("not stored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			files := newMemFS()
			p, recovered := start(t, options(files))
			m := newModel(1, recovered)
			p.append(m.set())
			files.setFault(func(op, _ string, size int) (int, error) {
				if op == "write" {
					return 0, errNoSpace
				}
				return size, nil
			})
			p.append(m.set())
			p.append(m.set())
			files.setFault(nil)
			<-time.After(10 * time.Second)
			p.append(m.set())
			p.end()
			if got := gaps(read(t, files, HistoryOptions{})); len(got) != 1 || !strings.Contains(got[0], "new instance") {
				t.Errorf("%q", got)
			}
		})
	})
	t.Run("damaged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			files, _, _ := written(t, 100)
			names := segmentsOf(files)
			data := *files.files[names[2]]
			data[len(data)/2]++
			records := read(t, files, HistoryOptions{})
			if got := gaps(records); len(got) != 1 || !strings.Contains(got[0], "damaged") {
				t.Errorf("%q", got)
			}
			p, recovered := start(t, options(files))
			p.append(newModel(2, recovered).set())
			p.end()
			if len(recovered.Problems) != 1 || recovered.Problems[0].Aside == "" {
				t.Fatalf("%+v", recovered)
			}
			got := gaps(read(t, files, HistoryOptions{}))
			if len(got) != 2 || !strings.Contains(got[0], recovered.Problems[0].Aside) || !strings.Contains(got[1], "new instance") {
				t.Errorf("%q", got)
			}
		})
	})
	t.Run("nothing can be read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			files, _, _ := written(t, 1)
			data := *files.files[segmentsOf(files)[0]]
			data[preambleBytes+frameHead]++
			if got := gaps(read(t, files, HistoryOptions{})); len(got) != 1 || !strings.Contains(got[0], "damaged at byte") {
				t.Errorf("%q", got)
			}
			p, recovered := start(t, options(files))
			p.append(newModel(2, recovered).set())
			p.end()
			if got := gaps(read(t, files, HistoryOptions{})); len(got) != 1 || got[0] != recovered.Problems[0].Aside+" was set aside" {
				t.Errorf("%q", got)
			}
		})
	})
	t.Run("booted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			files, _, _ := written(t, 30)
			opts := options(files)
			opts.BootID = "boot-2"
			p, recovered := start(t, opts)
			p.append(newModel(2, recovered).set())
			p.end()
			if got := gaps(read(t, files, HistoryOptions{})); len(got) != 1 || !strings.Contains(got[0], "new instance") {
				t.Errorf("%q", got)
			}
		})
	})
	t.Run("damaged at the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			files, m, _ := written(t, 100)
			names := segmentsOf(files)
			data := *files.files[names[len(names)-1]]
			data[len(data)-1]++
			records := read(t, files, HistoryOptions{})
			last := records[len(records)-1]
			if got := gaps(records); len(got) != 1 || last.Gap == "" || !strings.Contains(last.Gap, "damaged") || last.Instance != m.instance {
				t.Errorf("%q, %+v", got, last)
			}
		})
	})
	if got := read(t, &memFS{dirs: map[string]bool{"/state": true}}, HistoryOptions{}); len(got) != 0 {
		t.Errorf("an empty directory: %v", got)
	}
}

// Segments that are deleted while the history is read were stored, and are too old now.
func TestSegmentsDeletedWhileTheHistoryIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, _, _ := written(t, 60)
		names := segmentsOf(fs)
		var gaps []string
		for r, err := range History(fs, "/state", HistoryOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(names) > 0 {
				for _, name := range names[:3] {
					if err := fs.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
				names = nil
			}
			if r.Gap != "" {
				gaps = append(gaps, r.Gap)
			}
		}
		if got := strings.Join(gaps, "\n"); got != "updates were deleted in the meantime, because they are too old or too large" {
			t.Errorf("the gaps are %q", gaps)
		}
	})
}
