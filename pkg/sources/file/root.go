package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// singleFile is the name of the one file where the path is a file. No entry of a
// directory that is read has it.
const singleFile = "."

// maxResolves is how often the path is followed in a row while it keeps changing;
// what changes after that is told, or found by the relist.
const maxResolves = 100

// root is what is known of the manifest path itself.
type root struct {
	// known: a set can be told, for the path was read or was absent at the start.
	known bool
	// absent: it was absent at the start and still is.
	absent bool
	isDir  bool
	// real is where the path leads, free of links, and id what stands there.
	real string
	id   fileID
	// hops are the directory entries that decide where it leads.
	hops []hop
}

// concerns tells whether a change of the directory entry at path may change what
// the manifest path is.
func (r *root) concerns(path string) bool {
	for _, h := range r.hops {
		if h.path() == path {
			return true
		}
	}
	return false
}

// moved tells whether the path leads elsewhere than to what is watched.
func (s *Source) moved() bool {
	id, err := idOf(s.path)
	return err != nil || id != s.root.id
}

// pathOf returns the path of a file as its pod's UID has it.
func (s *Source) pathOf(name string) string {
	if name == singleFile {
		return s.path
	}
	return filepath.Join(s.path, name)
}

// list looks at the path anew and returns all files that are there or were.
func (s *Source) list(ctx context.Context) []string {
	s.metrics.scans.Inc()
	s.resolve(ctx)
	names, isDir, err := readPath(s.path)
	if err != nil {
		s.root.id = fileID{} // also if the same comes back
		s.unavailable(ctx, err)
		return nil
	}
	s.available(ctx)
	s.root.known, s.root.absent, s.root.isDir = true, false, isDir
	s.root.id, _ = idOf(s.root.real) // zero where it is gone again: that counts as moved
	if s.arm(ctx) {
		// It became a directory since, or was replaced by one.
		if again, _, err := readPath(s.path); err == nil {
			names = again
		}
	}
	for _, name := range names {
		if s.files[name] == nil {
			s.addFile(name)
		}
	}
	return append([]string(nil), s.order...)
}

// resolve finds out where the path leads and watches what decides that, before
// anything is read. What stood unwatched when it was followed may have changed
// since, untold: it is followed again until all of it was watched before.
func (s *Source) resolve(ctx context.Context) {
	for range maxResolves {
		s.root.hops, s.root.real, _ = resolve(s.path) // Stat says better what is wrong
		if !s.arm(ctx) && s.watches.cover(s.root.hops) {
			return
		}
	}
}

// readPath returns the names of the manifests at path.
func readPath(path string) (names []string, isDir bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, false, err
	case info.Mode().IsRegular():
		return []string{singleFile}, false, nil
	case !info.IsDir():
		return nil, false, errors.New("it is neither a directory nor a regular file")
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false, err
	}
	for _, name := range entries {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, true, nil
}

// unavailable notes that the path can't be read. A path that was never there is an
// empty set; any other keeps its set.
func (s *Source) unavailable(ctx context.Context, err error) {
	logger := klog.FromContext(ctx)
	if errors.Is(err, fs.ErrNotExist) && (!s.root.known || s.root.absent) {
		if !s.root.absent {
			logger.Info("The manifest path does not exist yet; until it does, the source has no pods")
		}
		s.root.known, s.root.absent = true, true
		s.board.update(func(status *v1alpha1.FileStatus) { status.Absent = true })
		return
	}
	// Whatever is missing is missing for this reason: nothing is removed.
	for f := range s.pending {
		f.goneSince, f.busySince, f.busyWait = time.Time{}, time.Time{}, 0
	}
	clear(s.pending)
	s.board.Failed(ctx, err, "The manifest path can't be read; its last pods are held", "pods", len(s.order))
}

// available notes that the path can be read.
func (s *Source) available(ctx context.Context) {
	s.board.update(func(status *v1alpha1.FileStatus) { status.Absent = false })
	s.board.Succeeded(ctx, "The manifest path can be read again")
}

// arm watches every directory that matters now. It tells whether one of them was
// not watched before.
func (s *Source) arm(ctx context.Context) (added bool) {
	dirs := make(map[string]struct{})
	for _, h := range s.root.hops {
		dirs[h.dir] = struct{}{}
	}
	if info, err := os.Stat(s.root.real); err == nil && info.IsDir() {
		dirs[s.root.real] = struct{}{}
	}
	s.links = make(map[string][]string)
	for _, name := range s.order {
		for _, h := range s.files[name].hops {
			dirs[h.dir] = struct{}{}
			s.links[h.path()] = append(s.links[h.path()], name)
		}
	}
	added, err := s.watches.set(dirs)
	logger := klog.FromContext(ctx)
	s.board.update(func(status *v1alpha1.FileStatus) {
		if err != nil {
			if status.WatchError != err.Error() {
				logger.Error(err, "Changes can't be watched; polling", "period", s.pollPeriod)
			}
			status.Watch, status.WatchError = watchPolling, err.Error()
			s.metrics.watching.Set(0)
			return
		}
		if status.WatchError != "" {
			logger.Info("Changes are watched again")
		}
		status.Watch, status.WatchError = watchInotify, ""
		s.metrics.watching.Set(1)
	})
	return added
}

// linked returns the files that are links.
func (s *Source) linked() []string {
	var names []string
	for _, name := range s.order {
		if len(s.files[name].hops) > 0 {
			names = append(names, name)
		}
	}
	return names
}
