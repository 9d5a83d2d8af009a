package follow

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

// maxLinks is the maximum number of symbolic links in a path, as in Linux.
const maxLinks = 40

// hop is a directory entry on the way of a path. Its directory has no links in its path,
// so each directory has one name.
type hop struct{ dir, base string }

func (h hop) path() string { return filepath.Join(h.dir, h.base) }

// resolve follows path. It returns the entries on the way that are links, the entry where
// the path ends or is missing, and the real path without links.
func resolve(path string) (hops []hop, real string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	at := string(filepath.Separator)
	rest := split(abs)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return append(hops, hop{at, name}), next, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		hops = append(hops, hop{at, name})
		if links++; links > maxLinks {
			return hops, next, &fs.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return hops, next, err
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(split(target), rest...)
	}
	return append(hops, hop{filepath.Dir(at), filepath.Base(at)}), at, nil
}

// split returns the names in a path, without empty ones and dots.
func split(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// links are the files in the directory that are symbolic links.
type links struct {
	// hops has the directory entries that determine the target of a file's links.
	hops map[string][]hop
	// dependents has the files that depend on a directory entry, by its path.
	dependents map[string][]string
}

// update resolves the file. It reports whether the result has changed.
func (l *links) update(name, path string) (changed bool) {
	var hops []hop
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		hops, _, _ = resolve(path) // reading the file gives the error
	}
	if slices.Equal(l.hops[name], hops) {
		return false
	}
	if hops == nil {
		delete(l.hops, name)
		return true
	}
	if l.hops == nil {
		l.hops = make(map[string][]hop)
	}
	l.hops[name] = hops
	return true
}

// retain forgets all other files. It reports whether there were any.
func (l *links) retain(names []string) (changed bool) {
	if len(l.hops) == 0 {
		return false
	}
	present := make(map[string]struct{}, len(names))
	for _, name := range names {
		present[name] = struct{}{}
	}
	for name := range l.hops {
		if _, ok := present[name]; !ok {
			delete(l.hops, name)
			changed = true
		}
	}
	return changed
}

// index rebuilds dependents.
func (l *links) index() {
	l.dependents = make(map[string][]string)
	for name, hops := range l.hops {
		for _, h := range hops {
			l.dependents[h.path()] = append(l.dependents[h.path()], name)
		}
	}
}

// Single is the name of the file if the path is a file. No entry of a directory has this
// name.
const Single = "."

// Clean returns the path without trailing slashes, as the kubelet uses it for a pod's
// UID.
func Clean(path string) string {
	volume := filepath.VolumeName(path) // nothing, except on Windows
	if clean := strings.TrimRightFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator }); clean != volume {
		return clean
	}
	return volume + string(filepath.Separator)
}

// Join returns the path of a file below the manifest path, as used for its pod's UID.
func Join(path, name string) string {
	if name == Single {
		return path
	}
	return filepath.Join(path, name)
}

// List returns the names of the files at path: either the names in the directory that do
// not begin with a dot, in no order, or [Single].
func List(path string) (names []string, isDir bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, false, err
	case info.Mode().IsRegular():
		return []string{Single}, false, nil
	case !info.IsDir():
		return nil, false, fmt.Errorf("%s is neither a directory nor a regular file", path)
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

// root is the state of the manifest path.
type root struct {
	isDir bool
	// real is the resolved path, without links. info is of the file or directory there;
	// nil for none.
	real string
	info os.FileInfo
	// hops are the directory entries that determine it.
	hops []hop
}

// concerns reports whether a change of the directory entry at path may change the
// manifest path.
func (r *root) concerns(path string) bool {
	for _, h := range r.hops {
		if h.path() == path {
			return true
		}
	}
	return false
}

// Status is how changes are found.
type Status struct {
	// Watch is WatchInotify, or WatchPolling if inotify is not available. WatchError is
	// the reason.
	Watch, WatchError string
	// Overflows is the number of times that inotify lost events and the path was listed
	// again.
	Overflows int
}

// Status returns how changes are found. Only the goroutine that ranges over Changes may
// call it.
func (f *Follower) Status() Status { return f.status }

// Busy returns how long Changes and its caller have been working on a change. Any goroutine can
// call it.
func (f *Follower) Busy() time.Duration {
	since := f.busySince.Load()
	if since == nil {
		return 0
	}
	return time.Since(*since)
}

// Relist makes Changes list the path within a poll period, or as soon as the file system answers.
// Any goroutine can call it.
func (f *Follower) Relist() { f.relist.Store(true) }

// Done ends the time of Busy: the caller has read the files, and waits for something else.
func (f *Follower) Done() { f.busySince.Store(nil) }

func (f *Follower) work() {
	f.began = time.Now()
	f.busySince.Store(new(f.began))
}

type metrics struct {
	scans, overflows prometheus.Counter
	watching         prometheus.Gauge
}

// newMetrics registers the metrics unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	in := metric.In(reg, "file_source")
	return &metrics{
		scans:     in.Counter("scans_total", "Listings of the manifest path."),
		overflows: in.Counter("watch_overflows_total", "Times that the inotify queue overflowed and the path was listed again."),
		watching:  in.Gauge("watching", "1 while inotify reports changes, 0 while the path is polled."),
	}
}
