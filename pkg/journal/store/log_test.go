package store

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

func TestASetComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rapid.Uint64().Draw(rt, "seed"), &Recovered{})
		m.padding = rapid.SampledFrom([]int{0, 0, 100, 100, 300 << 10}).Draw(rt, "padding")
		pods := make(map[sourceUID]kept)
		for range rapid.IntRange(1, 8).Draw(rt, "sets") {
			set := m.set()
			frames, err := encodeSet(set, 0)
			if err != nil {
				rt.Fatal(err)
			}
			got := decodeSets(rt, frames)
			if len(got) != 1 {
				rt.Fatalf("%d sets came back", len(got))
			}
			applyTo(pods, got[0])
			equal(t, "set", got[0], set)
		}
		equal(t, "state", pods, m.pods)
	})
}

func decodeSets(t rapid.TB, frames []byte) []*journal.Set {
	fs := newMemFS()
	data := withState(encodeHeader(&header{Instance: "i"}), nil)
	fs.dirs["/d"], fs.files["/d/s"] = true, new(append(data, frames...))
	s, r, err := openSegment(fs, "/d", 1, "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.snapshot(true); err != nil {
		t.Fatal(err)
	}
	var sets []*journal.Set
	end := r.sets(s, s.size, func(set *journal.Set) error {
		sets = append(sets, set)
		return nil
	})
	if end.err != nil || end.good != s.size {
		t.Fatalf("%+v", end)
	}
	return sets
}

func TestAProcessThatIsKilledGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		p, recovered := start(t, options(fs))
		m := newModel(1, recovered)
		for kill := range 20 {
			for range 30 {
				if c := p.append(m.set()); c != (journal.Commit{Instance: m.instance, Stored: true}) {
					t.Fatalf("%+v", c)
				}
			}
			killed := fs.clone()
			p.end()
			fs = killed
			p, recovered = start(t, options(fs))
			if !recovered.Resumed || recovered.Instance != m.instance || recovered.Revision != m.revision {
				t.Fatalf("kill %d: %+v", kill, recovered)
			}
			equal(t, "state", final(recovered), m.pods)
			if base := m.sets[len(m.sets)-len(recovered.Sets):]; len(recovered.Sets) < 30 || !slices.EqualFunc(base, recovered.Sets, sameSet) {
				t.Fatalf("kill %d: %d sets came back", kill, len(recovered.Sets))
			}
		}
		p.end()
	})
}

func sameSet(a, b *journal.Set) bool {
	x, _ := encodeSet(a, 0)
	y, _ := encodeSet(b, 0)
	return bytes.Equal(x, y)
}

func TestTheInstance(t *testing.T) {
	for _, test := range []struct {
		name           string
		booted, clean  bool
		resumed, fresh bool
	}{
		{name: "killed", resumed: true},
		{name: "stopped", clean: true, resumed: true},
		{name: "stopped and booted", booted: true, clean: true, resumed: true},
		{name: "booted", booted: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := newMemFS()
				p, recovered := start(t, options(fs))
				if recovered.Resumed || recovered.Reason == "" {
					t.Fatalf("an empty directory: %+v", recovered)
				}
				m := newModel(2, recovered)
				for range 10 {
					p.append(m.set())
				}
				killed := fs.clone()
				p.end()
				if !test.clean {
					fs = killed
				}
				opts := options(fs.clone())
				if test.booted {
					opts.BootID = "boot-2"
				}
				p, again := start(t, opts)
				defer p.end()
				if again.Resumed != test.resumed || (again.Instance == recovered.Instance) != test.resumed {
					t.Errorf("%+v", again)
				}
				if !test.resumed && again.Revision <= m.revision {
					t.Errorf("a new instance begins at %d, the earlier one ended at %d", again.Revision, m.revision)
				}
				equal(t, "state", final(again), m.pods)
			})
		})
	}
}

// After a clean stop, the next process must leave a trace before it shows anything:
// otherwise, if power fails, the stop would seem to be the last thing that happened.
func TestACleanStopHoldsForOneStartOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		p, recovered := start(t, options(fs))
		m := newModel(3, recovered)
		p.append(m.set())
		p.end()
		synced := map[string]bool{}
		fs.setFault(func(op, name string, size int) (int, error) {
			synced[op] = true
			return size, nil
		})
		p, _ = start(t, options(fs))
		p.append(m.set())
		if !synced["sync"] || !synced["syncdir"] {
			t.Errorf("before the first set was shown: %v", synced)
		}
		killed := fs.clone()
		p.end()
		opts := options(killed)
		opts.BootID = "boot-2"
		p, recovered = start(t, opts)
		p.end()
		if recovered.Resumed {
			t.Error("the instance went on over a boot without a clean stop")
		}
	})
}

func TestATornTailIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		opts := options(fs)
		opts.SegmentBytes = 1 << 20
		p, recovered := start(t, opts)
		m := newModel(4, recovered)
		var ends []int
		name := "/state/" + segmentName(1)
		for range 6 {
			p.append(m.set())
			ends = append(ends, len(*fs.files[name]))
		}
		killed := fs.clone()
		p.end()
		whole := *killed.files[name]
		for cut := ends[0]; cut <= len(whole); cut += 1 + cut%5 {
			torn := killed.clone()
			*torn.files[name] = whole[:cut]
			opts.FS = torn
			n := 0
			for n < len(ends) && ends[n] <= cut {
				n++
			}
			p, again := start(t, opts)
			if !again.Resumed || again.Revision != m.sets[n-1].Revision || len(again.Sets) != n {
				t.Fatalf("cut at %d: %d sets up to %d, want %d up to %d: %s", cut, len(again.Sets), again.Revision, n, m.sets[n-1].Revision, again.Reason)
			}
			// New sets come after the sets that count.
			next := newModel(uint64(cut), again)
			p.append(next.set())
			killed := torn.clone()
			p.end()
			opts.FS = killed
			p, again = start(t, opts)
			p.end()
			if !again.Resumed || again.Revision != next.revision || len(again.Sets) != n+1 {
				t.Fatalf("cut at %d, and gone on: %d sets up to %d: %s", cut, len(again.Sets), again.Revision, again.Reason)
			}
		}
	})
}

func TestASecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	opts := options(OS)
	opts.Dir = dir
	p, _ := start(t, opts)
	if _, _, err := Open(opts); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
	p.end()
	p, _ = start(t, opts)
	p.end()
}

// A new instance begins above all earlier revisions, including lost ones, whatever the clock says.
func TestRevisionsAreNotGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		opts := options(files)
		opts.SegmentBytes = 1 << 20
		p, recovered := start(t, opts)
		m := newModel(5, recovered)
		for range 20 {
			m.revision += reserve / 3
			p.append(m.set())
			<-time.After(2 * time.Second) // it is synced
		}
		for range 100 {
			p.append(m.set())
		}
		lost := files.clone()
		p.end()
		if len(segmentsOf(lost)) != 1 {
			t.Fatal(segmentsOf(lost))
		}
		data := lost.files["/state/"+segmentName(1)]
		*data = (*data)[:len(*data)-2000]
		opts = options(lost)
		opts.BootID, opts.Now = "boot-2", func() time.Time { return time.Unix(0, 0) }
		p, again := start(t, opts)
		p.end()
		if again.Resumed || again.Revision <= m.revision {
			t.Errorf("the new instance begins at %d, given were revisions up to %d: %+v", again.Revision, m.revision, again.Reason)
		}
	})
}

func TestASetLargerThanAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		largest := 0
		fs.setFault(func(op, _ string, size int) (int, error) {
			if op == "write" {
				largest = max(largest, size)
			}
			return size, nil
		})
		p, recovered := start(t, options(fs))
		m := newModel(6, recovered)
		set := &journal.Set{First: m.revision + 1, Time: m.now, Updates: []*journal.Update{{First: m.revision + 1, Op: config.ADD, Source: "api"}}}
		m.padding = 4 << 10
		for i := range 1000 {
			m.revision++
			set.Updates[0].Pods = append(set.Updates[0].Pods, m.pod("api", i))
		}
		set.Updates[0].Revision, set.Revision = m.revision, m.revision
		p.append(set)
		killed := fs.clone()
		p.end()
		if largest > batchBytes {
			t.Errorf("a write of %d bytes", largest)
		}
		p, recovered = start(t, options(killed))
		p.end()
		if len(recovered.Sets) != 1 || !sameSet(recovered.Sets[0], set) {
			t.Errorf("%d sets came back", len(recovered.Sets))
		}
	})
}
