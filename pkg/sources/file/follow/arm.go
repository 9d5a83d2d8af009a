package follow

import (
	"context"
	"errors"
	"os"
	"syscall"

	"k8s.io/klog/v2"
)

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
