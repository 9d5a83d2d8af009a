package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Watcher reports changes in directories. In tests it can be another one than
// inotify's.
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
	watched map[string]fileID
}

// events and errors return nil channels while there is no watcher.
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

// set makes dirs the directories that are watched. It tells whether any of them is
// watched only from now on, so that what changed in it before is yet to be looked
// for. A directory that is gone is passed over. On an error nothing is watched.
func (w *watches) set(dirs map[string]struct{}) (added bool, err error) {
	if w.w == nil {
		if w.w, err = w.open(); err != nil {
			w.w = nil
			return false, limitError(err, "max_user_instances")
		}
		w.watched = make(map[string]fileID)
	}
	ids := make(map[string]fileID, len(dirs))
	for dir := range dirs {
		if id, err := idOf(dir); err == nil {
			ids[dir] = id
		}
	}
	// First, for where two directories changed places: one directory has one watch.
	for dir, was := range w.watched {
		if id, ok := ids[dir]; !ok || id != was {
			w.drop(dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(ids)) { // an error names the same one each time
		if _, ok := w.watched[dir]; ok {
			continue
		}
		if err := w.w.Add(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			w.close()
			return false, limitError(fmt.Errorf("watching %s: %w", dir, err), "max_user_watches")
		}
		w.watched[dir] = ids[dir]
		added = true
	}
	return added, nil
}

// cover tells whether all the entries' directories are watched, or nothing can be.
func (w *watches) cover(hops []hop) bool {
	for _, h := range hops {
		if _, ok := w.watched[h.dir]; !ok && w.w != nil {
			return false
		}
	}
	return true
}

// lost tells whether the event says that a watched directory is gone from its
// place: the kernel watches it no longer, and another may stand there.
func (w *watches) lost(event fsnotify.Event) bool {
	if _, ok := w.watched[event.Name]; !ok || !event.Has(fsnotify.Remove|fsnotify.Rename) {
		return false
	}
	w.drop(event.Name)
	return true
}

// drop forgets a directory, also one that the kernel stopped watching by itself.
func (w *watches) drop(dir string) {
	if _, ok := w.watched[dir]; ok {
		_ = w.w.Remove(dir) // it may be gone, which is what is wanted
		delete(w.watched, dir)
	}
}

func (w *watches) close() {
	if w.w != nil {
		_ = w.w.Close() // there is nothing to flush
		w.w, w.watched = nil, nil
	}
}

// limitError names the setting that helps where a limit was reached.
func limitError(err error, sysctl string) error {
	switch {
	case errors.Is(err, syscall.EMFILE) && noDescriptors():
		return fmt.Errorf("%w (raise the limit of open files, RLIMIT_NOFILE)", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w (raise fs.inotify.%s)", err, sysctl)
	}
	return err
}

// noDescriptors tells whether the process can't open any file now.
func noDescriptors() bool {
	f, err := os.Open(os.DevNull)
	if err == nil {
		_ = f.Close() // nothing was written
	}
	return errors.Is(err, syscall.EMFILE)
}
