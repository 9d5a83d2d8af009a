package store

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// wanted returns the records of the model's sets.
func wanted(instance string, sets []*Set) []Record {
	var records []Record
	pods := make(map[podKey]Pod)
	for _, set := range sets {
		revision := set.First
		for _, u := range set.Updates {
			r := Record{Time: set.Time, Instance: instance, Op: u.Op, Source: u.Source, Revision: revision}
			for _, p := range u.Pods {
				key := podKey{u.Source, p.Object.UID}
				r.Pod, r.Before = p, pods[key]
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

// It is the same while a daemon writes, and over stops and kills.
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
	if got := read(t, &memFS{dirs: map[string]bool{"/state": true}}, HistoryOptions{}); len(got) != 0 {
		t.Errorf("an empty directory: %v", got)
	}
}
