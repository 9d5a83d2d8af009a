package file

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

// subsystem is part of the names of the metrics.
const subsystem = "file_source"

// board has the status. The source writes the changes, others read it.
type board struct {
	*sources.Board
	manifests *prometheus.GaugeVec

	mu       sync.Mutex // guards the fields below
	verdicts map[string]v1alpha1.Manifest
	states   map[v1alpha1.ManifestState]int
}

func newBoard(name, path string, reg prometheus.Registerer) *board {
	b := &board{
		Board: sources.NewBoard(v1alpha1.SourceStatus{
			Name: name, File: &v1alpha1.FileStatus{Path: path, Watch: follow.WatchPolling},
		}, reg, subsystem, "1 if the path can't be read. The last set stays."),
		manifests: metric.In(reg, subsystem).GaugeVec("manifests", "Manifest files by state.", "state"),
		verdicts:  make(map[string]v1alpha1.Manifest),
		states:    make(map[v1alpha1.ManifestState]int),
	}
	for _, state := range v1alpha1.ManifestStates() {
		b.count(state, 0)
	}
	return b
}

// update changes the part of the status that only the file source has.
func (b *board) update(change func(*v1alpha1.FileStatus)) {
	b.Update(func(status *v1alpha1.SourceStatus) { change(status.File) })
}

// follow records how changes are found, and the number of unsettled files.
func (b *board) follow(from follow.Status, unsettled int) {
	b.update(func(status *v1alpha1.FileStatus) {
		status.Watch, status.WatchError, status.Overflows = from.Watch, from.WatchError, from.Overflows
		status.Settling = unsettled
	})
}

// judge records the verdict on a file; nil removes it.
func (b *board) judge(path string, v *v1alpha1.Manifest) {
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

func (b *board) count(state v1alpha1.ManifestState, by int) {
	b.states[state] += by
	b.manifests.WithLabelValues(string(state)).Set(float64(b.states[state]))
}

func (b *board) read() v1alpha1.SourceStatus {
	status := b.Status()
	var verdicts sources.Verdicts
	for _, v := range b.all() {
		verdicts.Add(v)
	}
	status.File.Manifests, status.File.ManifestsOmitted = verdicts.Shown(), verdicts.Omitted()
	return status
}

// all returns the verdict on each file, by path.
func (b *board) all() []v1alpha1.Manifest {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]v1alpha1.Manifest, 0, len(b.verdicts))
	for _, v := range b.verdicts {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Manifest) int { return cmp.Compare(a.Path, b.Path) })
	return all
}
