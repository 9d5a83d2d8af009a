package follow

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
)

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
