package manifests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// Whatever happens to the files, the set is what the record of each file says.
func TestTheSetIsWhatTheFilesServe(t *testing.T) {
	const histories, steps = 20, 60
	for seed := range uint64(histories) {
		h := history{bench: newBench(t), rand: rand.New(rand.NewPCG(seed, 0))}
		for range steps {
			h.step()
			h.check()
			if t.Failed() {
				t.Fatalf("history %d:\n%s", seed, strings.Join(h.log, "\n"))
			}
		}
	}
}

// history is a random history of a path. The names and UIDs of few pods occur in few files, and the path is sometimes a file.
type history struct {
	*bench
	rand *rand.Rand
	log  []string
}

// step makes one change at the path, or lets the set look.
func (h *history) step() {
	file := string("abcd"[h.rand.IntN(4)]) + ".yaml"
	path := filepath.Join(h.dir, file)
	if info, err := os.Stat(h.dir); err != nil || !info.IsDir() {
		path = h.dir
	}
	names := []string{file}
	switch what := h.rand.IntN(20); {
	case what < 6:
		text := podtest.Manifest(string("pqr"[h.rand.IntN(3)]), fmt.Sprint(h.rand.IntN(3)))
		if h.rand.IntN(3) == 0 {
			text = strings.Replace(text, "{name", fmt.Sprintf("{uid: u%d, name", h.rand.IntN(2)), 1)
		}
		if h.rand.IntN(5) == 0 {
			text = "kind: ["
		}
		h.do("write "+path, os.WriteFile(path, []byte(text), 0o644))
	case what < 8:
		h.do("remove "+path, os.Remove(path))
	case what < 9:
		text, err := os.ReadFile(path)
		if err == nil { // the same pod from a file with another mode
			err = errors.Join(os.Chmod(path, os.FileMode(0o600+h.rand.IntN(2)*0o044)), os.WriteFile(path, append(text, "#\n"...), 0))
		}
		h.do("chmod and comment "+path, err)
	case what < 10:
		other := filepath.Join(h.dir, string("abcd"[h.rand.IntN(4)])+".yaml")
		h.do("rename "+path+" "+other, os.Rename(path, other))
	case what < 11:
		h.do("replace the path", os.RemoveAll(h.dir))
		if h.rand.IntN(2) == 0 {
			h.do("by a directory", os.Mkdir(h.dir, 0o755))
		} else {
			h.do("by a file", os.WriteFile(h.dir, []byte(podtest.Manifest("p", "1")), 0o644))
		}
	case what < 12:
		h.do("hold", nil)
		h.set.Hold()
	case what < 13:
		h.do("restart", nil)
		h.restart()
	case what < 14:
		h.do("look again", nil)
		h.set.LookAgain(h.Context())
	case what < 16:
		h.do("wait", nil)
		for f := range h.set.pending {
			f.due = time.Time{}
		}
		h.set.Look(h.Context(), nil)
	case what < 18 && path != h.dir:
		h.do("look at "+file, nil)
		h.set.Distrust(names)
		h.set.Look(h.Context(), names)
	default:
		if _, err := os.Stat(h.dir); err == nil {
			h.do("look at all", nil)
			h.lookAll()
		}
	}
}

func (h *history) do(what string, err error) { h.log = append(h.log, fmt.Sprint(what, " ", err)) }

// restart replaces the set by one of the restored pods.
func (h *history) restart() {
	pods, files := h.set.Pods()
	restored := sources.Restored{Pods: pods, Files: make(map[types.UID]*config.File)}
	for i, pod := range pods {
		restored.Files[pod.UID] = files[i]
	}
	h.set = New(Options{Path: h.dir, Decoder: manifest.NewDecoder("n"), Impatient: true, Restored: restored})
}

// check compares the set with the records of the files.
func (h *history) check() {
	var pods []*v1.Pod
	var files []*config.File
	claimed := make(claims)
	for _, f := range h.set.order {
		if h.set.files[f.name] != f {
			h.Errorf("%s is in the order, and not a file", f.name)
		}
		if f.serving == nil {
			continue
		}
		pods, files = append(pods, f.serving), append(files, f.source)
		for _, has := range claimsOf(f.serving) {
			if claimed[has] != nil {
				h.Errorf("%s and %s have the %s", claimed[has].name, f.name, has)
			}
			claimed[has] = f
			if h.set.claims[has] != f {
				h.Errorf("%s does not own its %s", f.name, has)
			}
		}
	}
	gotPods, gotFiles := h.set.Pods()
	sameFile := func(a, b *config.File) bool { return a.Path == b.Path && a.UID == b.UID && a.Mode == b.Mode }
	if !slices.Equal(gotPods, pods) || !slices.EqualFunc(gotFiles, files, sameFile) || h.set.Len() != len(pods) {
		h.Errorf("the set has the pods %v of %v, want %v of %v", gotPods, gotFiles, pods, files)
	}
	if len(h.set.claims) != len(claimed) {
		h.Errorf("%d claims, want %d", len(h.set.claims), len(claimed))
	}
	for has := range h.set.holders {
		if h.set.claims[has] == nil {
			h.Errorf("the holders of the %s are remembered, and no file has it", has)
		}
	}
	for f := range h.set.waiting { // no file waits for what it could have
		free := true
		for _, needs := range claimsOf(f.pod) {
			free = free && h.set.claims[needs] == nil
		}
		if free || f.serving != nil {
			h.Errorf("%s waits for nothing", f.name)
		}
	}
}
