package file

import (
	"cmp"
	"slices"
	"sync"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Status is what the source has to say of itself.
type Status struct {
	sources.Condition
	// Path is the manifest path.
	Path string `json:"path"`
	// Watch is "inotify", or "polling" where that can't be had; WatchError says why.
	Watch      string `json:"watch"`
	WatchError string `json:"watchError,omitempty"`
	// Overflows counts how often inotify lost events and the path was listed anew.
	Overflows int `json:"overflows,omitempty"`
	// Absent: the path was not there at the start and is not there yet.
	Absent bool `json:"absent,omitempty"`
	// Settling counts the files that are being written, or are gone for less than
	// 50 ms: the next set will tell of them.
	Settling int `json:"settling,omitempty"`
	// Manifests has a verdict for each manifest, by path.
	Manifests []sources.Verdict `json:"manifests"`
}

// board is the status as others read it. The source writes to it what changed.
type board struct {
	mu       sync.Mutex
	status   Status
	verdicts map[string]sources.Verdict
	states   map[sources.State]int
	metrics  *metrics
}

func newBoard(path string, m *metrics) *board {
	return &board{
		status:   Status{Path: path, Watch: watchPolling},
		verdicts: make(map[string]sources.Verdict),
		states:   make(map[sources.State]int),
		metrics:  m,
	}
}

func (b *board) update(change func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
}

// judge records the verdict on a file; nil takes it off.
func (b *board) judge(path string, v *sources.Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.verdicts[path]; ok {
		b.count(old.State, -1)
		delete(b.verdicts, path)
	}
	if v != nil {
		b.count(v.State, 1)
		b.verdicts[path] = *v
	}
}

func (b *board) count(state sources.State, by int) {
	b.states[state] += by
	b.metrics.manifests.WithLabelValues(string(state)).Set(float64(b.states[state]))
}

func (b *board) read() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := b.status
	status.Manifests = make([]sources.Verdict, 0, len(b.verdicts))
	for _, v := range b.verdicts {
		status.Manifests = append(status.Manifests, v)
	}
	slices.SortFunc(status.Manifests, func(a, b sources.Verdict) int { return cmp.Compare(a.Path, b.Path) })
	return status
}
