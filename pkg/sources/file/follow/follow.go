package follow

import (
	"context"
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

const (
	// DefaultPollPeriod is how often the path is polled where inotify can't be had.
	DefaultPollPeriod = time.Second
	// maxResolves is how often links are followed in a row while they keep changing.
	// A later change is reported by an event, or found by the relist.
	maxResolves = 100
	// maxEvents is how many events are taken at a time.
	maxEvents = 1024
)

// How changes are found, as Status has it.
const (
	WatchInotify = "inotify"
	WatchPolling = "polling"
)

// Options say what a Follower follows.
type Options struct {
	// Path is the directory or file, as Clean returns it.
	Path string
	// Period is the full relist interval, in addition to inotify. PollPeriod is how
	// often the path is looked at for what inotify does not report, and how often it
	// is listed where there is no inotify; 0 stands for DefaultPollPeriod, or for
	// Period where that is shorter.
	Period, PollPeriod time.Duration
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Open opens a watcher; nil stands for Inotify.
	Open func() (Watcher, error)
}

// Status says how changes are found.
type Status struct {
	// Watch is WatchInotify, or WatchPolling where that can't be had; WatchError says
	// why.
	Watch, WatchError string
	// Overflows counts how often inotify lost events and the path was listed again.
	Overflows int
}

// Change says which files may have changed.
type Change struct {
	// Err is why the path can't be listed. Nothing is known of its files then.
	Err error
	// Listed: Names are all files that are there, and Dir says what kind of path it
	// is. Any other file is gone.
	Listed, Dir bool
	// Names are the files to look at.
	Names []string
	// Told are the files that an event named. Even if their times are what they were
	// before, they may have changed.
	Told []string
}

// Follower follows one path. It belongs to one goroutine.
type Follower struct {
	path               string
	period, pollPeriod time.Duration
	metrics            *metrics
	status             Status

	watches watches
	root    root
	links   links
	// cause is why changes can't be watched; empty while they are.
	cause string
}

// New returns a follower. It does nothing before Changes.
func New(opts Options) *Follower {
	if opts.PollPeriod == 0 {
		opts.PollPeriod = min(DefaultPollPeriod, opts.Period)
	}
	if opts.Open == nil {
		opts.Open = Inotify
	}
	return &Follower{
		path:       opts.Path,
		period:     opts.Period,
		pollPeriod: opts.PollPeriod,
		metrics:    newMetrics(opts.Registerer),
		status:     Status{Watch: WatchPolling},
		watches:    watches{open: opts.Open},
	}
}

// Status returns how changes are found. It is for the goroutine that ranges over
// Changes.
func (f *Follower) Status() Status { return f.status }

// Changes follows the path until the context is done: first a listing, then each
// change. When again fires there is a change too, which may name no file: that is for
// files that are to be looked at another time.
func (f *Follower) Changes(ctx context.Context, again <-chan time.Time) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		defer f.watches.close()
		mounts := watchMounts(ctx)
		defer mounts.close()
		relist := time.NewTicker(f.period)
		defer relist.Stop()
		poll := time.NewTicker(f.pollPeriod)
		defer poll.Stop()

		for change, ok := f.list(ctx), true; ok && yield(change); {
			change, ok = f.next(ctx, relist.C, poll.C, again, mounts.changed)
		}
	}
}

// next waits for a change, or for the end of the context.
func (f *Follower) next(ctx context.Context, relist, poll, again <-chan time.Time, mounts <-chan struct{}) (change Change, ok bool) {
	for {
		select {
		case <-ctx.Done():
			return Change{}, false
		case event := <-f.watches.events():
			return f.affected(ctx, f.drain(event)), true
		case err := <-f.watches.errors():
			f.watchFailed(ctx, err)
			return f.list(ctx), true
		case <-relist:
			return f.list(ctx), true
		case <-mounts:
			return f.list(ctx), true
		case <-poll:
			// There is no event when an ancestor is renamed.
			if f.watches.w == nil || f.moved() {
				return f.list(ctx), true
			}
		case <-again:
			if f.moved() {
				return f.list(ctx), true
			}
			return Change{}, true
		}
	}
}

// drain returns the event and those that wait behind it.
func (f *Follower) drain(event fsnotify.Event) []fsnotify.Event {
	events := []fsnotify.Event{event}
	for len(events) < maxEvents {
		select {
		case event := <-f.watches.events():
			events = append(events, event)
		default:
			return events
		}
	}
	return events
}

// affected returns the files that the events concern, and all where they concern the
// path itself.
func (f *Follower) affected(ctx context.Context, events []fsnotify.Event) Change {
	told := make(map[string]struct{}, len(events))
	relist := false
	for _, event := range events {
		if f.watches.lost(event) || f.root.concerns(event.Name) {
			relist = true
			told[Single] = struct{}{}
		}
		dir, base := filepath.Split(event.Name)
		if f.root.isDir && filepath.Clean(dir) == f.root.real && !strings.HasPrefix(base, ".") {
			told[base] = struct{}{}
		}
		for _, name := range f.links.dependents[event.Name] {
			told[name] = struct{}{}
		}
	}
	names := slices.Collect(maps.Keys(told))
	if relist {
		change := f.list(ctx)
		change.Told = names
		return change
	}
	return Change{Names: f.followLinks(ctx, slices.Clone(names)), Told: names}
}

// watchFailed starts watching again: the end of a watch may be what was lost.
func (f *Follower) watchFailed(ctx context.Context, err error) {
	f.watches.close()
	logger := klog.FromContext(ctx)
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		f.metrics.overflows.Inc()
		f.status.Overflows++
		logger.Info("The inotify queue overflowed, listing the path again")
		return
	}
	logger.Error(err, "Watching failed, starting it again")
}

// moved tells whether the path leads elsewhere than to what is watched.
func (f *Follower) moved() bool {
	id, err := idOf(f.path)
	return err != nil || id != f.root.id
}

// list looks at the path again.
func (f *Follower) list(ctx context.Context) Change {
	f.metrics.scans.Inc()
	f.followPath(ctx)
	names, isDir, err := List(f.path)
	if err != nil {
		f.root.id = fileID{} // also if the same comes back
		return Change{Err: err}
	}
	f.root.isDir = isDir
	f.root.id, _ = idOf(f.root.real) // zero where it is gone again: that counts as moved
	if f.arm(ctx) {
		// It became a directory since, or was replaced by one.
		if again, _, err := List(f.path); err == nil {
			names = again
		}
	}
	if f.links.retain(names) {
		f.links.index()
	}
	return Change{Listed: true, Dir: isDir, Names: f.followLinks(ctx, names)}
}

// followPath finds out where the path leads and watches what decides that, before
// anything is read. What was not watched yet when the path was followed may have
// changed since: it is followed again until all of it was watched before.
func (f *Follower) followPath(ctx context.Context) {
	for range maxResolves {
		f.root.hops, f.root.real, _ = resolve(f.path) // Stat says better what is wrong
		if !f.arm(ctx) && f.watches.cover(f.root.hops) {
			return
		}
	}
}

// followLinks does the same for the files of these names that are links. It returns
// the names, and the other links too where a directory is watched only from now on:
// what changed in it before was not reported.
func (f *Follower) followLinks(ctx context.Context, names []string) []string {
	for range maxResolves {
		changed := false
		for _, name := range names {
			if name != Single { // that is the path itself
				changed = f.links.update(name, Join(f.path, name)) || changed
			}
		}
		if !changed {
			break
		}
		f.links.index()
		if !f.arm(ctx) {
			break
		}
		names = slices.AppendSeq(names, maps.Keys(f.links.hops))
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}

// arm watches every directory that matters now. It tells whether one of them was
// not watched before.
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
			logger.Error(err, "Changes can't be watched; polling", "period", f.pollPeriod)
		}
		f.status.Watch, f.status.WatchError = WatchPolling, err.Error()
		f.metrics.watching.Set(0)
		return added
	}
	if f.cause != "" {
		f.cause = ""
		logger.Info("Changes are watched again")
	}
	f.status.Watch, f.status.WatchError = WatchInotify, ""
	f.metrics.watching.Set(1)
	return added
}

// causeOf returns what is the same in two errors that differ in the directory only.
func causeOf(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}
