package store

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// written returns a directory with several segments, whose process was killed, and the
// states that were shown, by revision.
func written(t *testing.T, sets int) (*memFS, *model, map[int64]map[sourceUID]kept) {
	t.Helper()
	fs := newMemFS()
	p, recovered := start(t, options(fs))
	m := newModel(7, recovered)
	shown := map[int64]map[sourceUID]kept{m.revision: {}}
	for range sets {
		p.append(m.set())
		shown[m.revision] = maps.Clone(m.pods)
		synctest.Wait() // a new segment is begun now
	}
	killed := fs.clone()
	p.end()
	return killed, m, shown
}

// withState appends the end of a snapshot.
func withState(data []byte, sources map[string]journal.Source) []byte {
	c := newPieces(data, kindPods)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		c.source(sources[name])
	}
	data, err := c.lastFrame(kindState)
	if err != nil {
		panic(err)
	}
	return data
}

func segmentsOf(fs *memFS) []string {
	fs.mu.Lock() // the log may be running
	defer fs.mu.Unlock()
	var names []string
	for name := range fs.files {
		if strings.HasSuffix(name, segmentSuffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A flipped byte anywhere is noticed: what comes back is a state that was shown, and if it
// is not the last one, the instance is new.
func TestAFlippedByte(t *testing.T) {
	testutil.Exhaustive(t)
	synctest.Test(t, func(t *testing.T) {
		whole, m, shown := written(t, 60)
		names := segmentsOf(whole)
		if len(names) < 4 {
			t.Fatalf("%d segments", len(names))
		}
		random := rand.New(rand.NewPCG(1, 2))
		aside, resumed := 0, 0
		for range 2000 {
			fs := whole.clone()
			name := names[random.IntN(len(names))]
			data := *fs.files[name]
			at := random.IntN(len(data))
			data[at] ^= byte(1 << random.IntN(8))
			l, again, err := Open(options(fs))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%s, byte %d", name, at)
			if again.Resumed {
				resumed++
				if again.Revision != m.revision {
					t.Fatalf("%s: resumed at %d, not at %d", what, again.Revision, m.revision)
				}
				equal(t, what, final(again), m.pods)
				continue
			}
			if again.Revision <= m.revision || again.Instance == m.instance {
				t.Fatalf("%s: a new instance at %d, the last one ended at %d", what, again.Revision, m.revision)
			}
			if len(again.Problems) == 0 {
				t.Fatalf("%s: not reported: %+v", what, again)
			}
			if again.Problems[0].Aside != "" {
				aside++
			}
			found := false
			for _, state := range shown {
				found = found || equalStates(state, final(again))
			}
			if !found {
				t.Fatalf("%s: a state that was never shown", what)
			}
		}
		if aside == 0 || resumed > 0 {
			t.Errorf("set aside %d times, resumed %d times", aside, resumed)
		}
	})
}

func equalStates(a, b map[sourceUID]kept) bool {
	if len(a) != len(b) {
		return false
	}
	for key, p := range a {
		q, there := b[key]
		if !there || p.Revision != q.Revision {
			return false
		}
	}
	return true
}

func TestWhatIsSetAside(t *testing.T) {
	for _, test := range []struct {
		name, label string
		content     func(fs *memFS) []byte
	}{
		{"foreign", "foreign", func(*memFS) []byte { return []byte("a letter to somebody else, not a log") }},
		{"newer format", "newer", func(fs *memFS) []byte {
			data := encodeHeader(&header{Instance: "i", Node: "node"})
			data[len(magic)]++
			return reseal(data)
		}},
		{"another node", "othernode", func(*memFS) []byte {
			return withState(encodeHeader(&header{Instance: "i", Node: "other"}), nil)
		}},
		{"damaged header", "damaged", func(*memFS) []byte {
			data := withState(encodeHeader(&header{Instance: "i", Node: "node"}), nil)
			data[preambleBytes+frameHead+3]++
			return data
		}},
		{"damaged snapshot", "damaged", func(*memFS) []byte {
			data := withState(encodeHeader(&header{Instance: "i", Node: "node"}), map[string]journal.Source{"file": {Name: "file"}})
			data[len(data)-1]++
			return data
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs, m, _ := written(t, 20)
				content := test.content(fs)
				name := segmentName(900)
				fs.files["/state/"+name] = &content
				fs.files["/state/"+segmentName(901)+".damaged-20200101T000000Z"] = new([]byte("kept"))
				fs.files["/state/README"] = new([]byte("kept too"))
				p, again := start(t, options(fs))
				if again.Resumed || len(again.Problems) != 1 || !strings.HasPrefix(again.Problems[0].Aside, name+"."+test.label+"-2") {
					t.Fatalf("%+v", again)
				}
				equal(t, "state", final(again), m.pods)
				if c := p.append(newModel(1, again).set()); !c.Stored {
					t.Error("the next set was not stored")
				}
				p.end()
				if got := fs.files["/state/"+again.Problems[0].Aside]; got == nil || !bytes.Equal(*got, content) {
					t.Error("what was set aside is not what it was")
				}
				if fs.files["/state/"+segmentName(902)] == nil {
					t.Errorf("the next segment has a number that was used: %v", segmentsOf(fs))
				}
				for _, kept := range []string{"README", segmentName(901) + ".damaged-20200101T000000Z"} {
					if fs.files["/state/"+kept] == nil {
						t.Errorf("%s is gone", kept)
					}
				}
			})
		})
	}
}

// reseal corrects the checksum of the preamble.
func reseal(data []byte) []byte {
	sealed := encodeHeader(&header{Instance: "i"})
	copy(sealed, data[:len(magic)+4])
	sum := checksum(sealed[:preambleBytes-4])
	for i := range 4 {
		data[int(preambleBytes)-4+i] = byte(sum >> (8 * i))
	}
	return data
}

// A log also starts on a directory that can't be read, or written.
func TestADirectoryThatCantBeUsed(t *testing.T) {
	for _, op := range []string{"mkdir", "lock", "list", "open", "create", "write", "sync", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files, _, _ := written(t, 5)
				files.setFault(func(o, _ string, size int) (int, error) {
					if o == op {
						return 0, &fs.PathError{Op: op, Path: "/state", Err: fs.ErrPermission}
					}
					return size, nil
				})
				p, again := start(t, options(files))
				m := newModel(1, again)
				first := p.append(m.set())
				if op == "open" { // only what is there can't be used
					if !first.Stored || again.Resumed || len(again.Problems) == 0 {
						t.Errorf("%+v, %+v", first, again)
					}
					p.end()
					return
				}
				if first.Stored || p.log.Status().Err == nil {
					t.Errorf("%+v, %+v", first, p.log.Status())
				}
				if again.Resumed && first.Instance == again.Instance {
					t.Error("a set that is not stored is shown under the old instance")
				}
				if c := p.append(m.set()); c != first {
					t.Errorf("%+v after %+v", c, first)
				}
				p.end()
			})
		})
	}
}

// Recovery takes any bytes.
func FuzzRecovery(f *testing.F) {
	m := newModel(1, &Recovered{})
	data := withState(encodeHeader(&header{Instance: "i", Node: "node", BootID: "boot-1"}), map[string]journal.Source{"file": {Name: "file", Seen: true}})
	for range 4 {
		frames, err := encodeSet(m.set(), 0)
		if err != nil {
			f.Fatal(err)
		}
		data = append(data, frames...)
	}
	f.Add(data, false)
	f.Add(appendStop(appendCeiling(slices.Clone(data), 1<<40), m.now, 0), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal { // so that what the frames say is looked at
			data = resealFrames(slices.Clone(data))
		}
		files := newMemFS()
		files.dirs["/state"], files.files["/state/"+segmentName(1)] = true, &data
		l, again, err := Open(options(files))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		revision := again.Base.Revision()
		for _, set := range again.Sets {
			if set.First <= revision || set.Revision < set.First {
				t.Errorf("revisions %d to %d after %d", set.First, set.Revision, revision)
			}
			revision = set.Revision
		}
		if again.Instance == "" || revision > again.Revision || again.Resumed && revision != again.Revision {
			t.Errorf("%+v", again)
		}
	})
}

// resealFrames corrects the checksums of frames.
func resealFrames(data []byte) []byte {
	for at := int(preambleBytes); at+frameHead < len(data); {
		length := int(data[at]) | int(data[at+1])<<8 | int(data[at+2])<<16
		end := at + frameHead + length
		if length == 0 || end > len(data) {
			break
		}
		_ = endFrame(data[:end], at)
		at = end
	}
	return data
}
