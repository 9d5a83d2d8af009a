package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
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

// Verdict is the verdict on a manifest, with its faults and warnings one by one.
type Verdict = manifests.Verdict

// Judge returns the verdict on a manifest that is in no file. It has no UID, which would depend on the path.
func Judge(decoder *manifest.Decoder, name string, data []byte) Verdict {
	return manifests.Judge(decoder, name, data)
}

// CheckPattern returns an error if a pattern of [Options.Ignore] is wrong.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "/") {
		return fmt.Errorf("%q is not a pattern of file names: expected for example \"*.bak\"", pattern)
	}
	return nil
}

// Check returns the verdicts that a source with these options has at its first listing.
// It watches nothing, and does not wait for files that are being written. An empty path,
// for example from an unset variable, is an error, not the root directory. If as is not
// empty, the pods get the UIDs of files in that directory. The files whose names are in first were there before the others.
func Check(ctx context.Context, opts Options, as string, first []string) ([]Verdict, error) {
	if opts.Path == "" {
		return nil, errors.New("the path is empty")
	}
	place := follow.Clean(opts.Path)
	names, dir, err := follow.List(place)
	if info, missing := os.Lstat(place); err != nil && missing == nil && info.Mode()&fs.ModeSymlink != 0 {
		names, dir, err = []string{follow.Single}, false, nil // the verdict says where the link leads
	}
	if err != nil {
		return nil, err
	}
	set := manifests.New(manifests.Options{Path: place, As: as, Decoder: opts.Decoder, Ignore: opts.Ignore, Impatient: true})
	if first = slices.DeleteFunc(slices.Clone(first), func(name string) bool { return !slices.Contains(names, name) }); len(first) > 0 {
		set.LookAll(ctx, dir, first)
	}
	set.LookAll(ctx, dir, names)
	return set.Verdicts(), nil
}
