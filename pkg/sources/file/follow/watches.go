package follow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// Watcher reports changes in directories. Tests replace inotify by another one.
type Watcher interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	Events() <-chan fsnotify.Event
	Errors() <-chan error
}

type inotify struct{ *fsnotify.Watcher }

// Inotify opens a [Watcher] that uses inotify.
func Inotify() (Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return inotify{w}, nil
}

func (i inotify) Events() <-chan fsnotify.Event { return i.Watcher.Events }
func (i inotify) Errors() <-chan error          { return i.Watcher.Errors }

// watches keeps a Watcher on the directories that matter.
type watches struct {
	open    func() (Watcher, error)
	w       Watcher
	watched map[string]os.FileInfo
}

// events and errors return nil channels if there is no watcher.
func (w *watches) events() <-chan fsnotify.Event {
	if w.w == nil {
		return nil
	}
	return w.w.Events()
}

func (w *watches) errors() <-chan error {
	if w.w == nil {
		return nil
	}
	return w.w.Errors()
}

// set makes dirs the watched directories. It reports whether one of them is newly
// watched, because its earlier changes were not reported. It skips a missing directory.
// On an error nothing is watched.
func (w *watches) set(dirs map[string]struct{}) (added bool, err error) {
	if w.w == nil {
		if w.w, err = w.open(); err != nil {
			w.w = nil
			return false, limitError(err, "max_user_instances")
		}
		w.watched = make(map[string]os.FileInfo)
	}
	infos := make(map[string]os.FileInfo, len(dirs))
	for dir := range dirs {
		if info, err := os.Stat(dir); err == nil {
			infos[dir] = info
		}
	}
	// Removals come first, in case two directories were swapped: each directory has one
	// watch.
	for dir, was := range w.watched {
		if !os.SameFile(infos[dir], was) {
			w.drop(dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(infos)) { // sorted, so that an error always names the same one
		if _, ok := w.watched[dir]; ok {
			continue
		}
		if err := w.w.Add(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			w.close()
			return false, limitError(fmt.Errorf("watching %s: %w", dir, err), "max_user_watches")
		}
		w.watched[dir] = infos[dir]
		added = true
	}
	return added, nil
}

// cover reports whether the directories of all entries are watched, or nothing can be
// watched.
func (w *watches) cover(hops []hop) bool {
	for _, h := range hops {
		if _, ok := w.watched[h.dir]; !ok && w.w != nil {
			return false
		}
	}
	return true
}

// lost reports whether the event means that a watched directory has left its place. The
// kernel no longer watches it, and another directory may be there.
func (w *watches) lost(event fsnotify.Event) bool {
	if _, ok := w.watched[event.Name]; !ok || !event.Has(fsnotify.Remove|fsnotify.Rename) {
		return false
	}
	w.drop(event.Name)
	return true
}

// drop forgets a directory, also if the kernel has already stopped watching it.
func (w *watches) drop(dir string) {
	if _, ok := w.watched[dir]; ok {
		_ = w.w.Remove(dir) // it may be gone already
		delete(w.watched, dir)
	}
}

func (w *watches) close() {
	if w.w != nil {
		_ = w.w.Close() // there is nothing to flush
		w.w, w.watched = nil, nil
	}
}

// limitError adds the setting to change, if a limit was reached.
func limitError(err error, sysctl string) error {
	switch {
	case errors.Is(err, syscall.EMFILE) && noDescriptors():
		return fmt.Errorf("%w (raise the limit of open files, RLIMIT_NOFILE)", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w (raise fs.inotify.%s)", err, sysctl)
	}
	return err
}

// noDescriptors reports whether the process can't open a file now.
func noDescriptors() bool {
	f, err := os.Open(os.DevNull)
	if err == nil {
		_ = f.Close() // nothing was written
	}
	return errors.Is(err, syscall.EMFILE)
}

// arm watches all directories that matter now. It reports whether one of them is newly
// watched.
func (f *Follower) arm(ctx context.Context) (added bool) {
	dirs := make(map[string]struct{})
	for _, h := range f.root.hops {
		dirs[h.dir] = struct{}{}
	}
	if info, err := os.Stat(f.root.real); err == nil && info.IsDir() {
		dirs[f.root.real] = struct{}{}
	}
	for _, hops := range f.links.hops {
		for _, h := range hops {
			dirs[h.dir] = struct{}{}
		}
	}
	added, err := f.watches.set(dirs)
	logger := klog.FromContext(ctx)
	if err != nil {
		if cause := causeOf(err); f.cause != cause {
			f.cause = cause
			logger.Error(err, "Failed to watch for changes, polling", "period", f.pollPeriod)
		}
		f.status.Watch, f.status.WatchError = WatchPolling, err.Error()
		f.metrics.watching.Set(0)
		return added
	}
	if f.cause != "" {
		f.cause = ""
		logger.Info("Watching for changes again")
	}
	f.status.Watch, f.status.WatchError = WatchInotify, ""
	f.metrics.watching.Set(1)
	return added
}

// causeOf returns the part of an error that does not depend on the directory.
func causeOf(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}
