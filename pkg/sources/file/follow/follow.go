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
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
)

const (
	// defaultPollPeriod is the period of polling if inotify is not available.
	defaultPollPeriod = time.Second
	// maxResolves is the maximum number of times that changing links are resolved in a
	// row. An event reports a later change, or the relist finds it.
	maxResolves = 100
	// maxEvents is the maximum number of events that are read at a time.
	maxEvents = 1024
)

// Values of Status.Watch.
const (
	WatchInotify = "inotify"
	WatchPolling = "polling"
)

// Options configure a Follower.
type Options struct {
	// Path is the directory or file, as Clean returns it.
	Path string
	// Period is the full relist interval, in addition to inotify. PollPeriod is the
	// interval of checks for changes that inotify does not report, and of listings
	// without inotify. 0 means defaultPollPeriod, or Period if that is shorter.
	Period, PollPeriod time.Duration
	// Registerer is for the metrics; nil for none.
	Registerer prometheus.Registerer
	// Open opens a watcher; nil means Inotify.
	Open func() (Watcher, error)
	// Wake returns a channel that is closed when the path must be listed again; nil for none.
	Wake func() <-chan struct{}
}

// Change is the files that may have changed.
type Change struct {
	// At is when the change was noticed: the arrival of an event, or the start of a listing. It
	// is zero if again fired. Began is when the work on it began.
	At, Began time.Time
	// Err is why the path can't be listed. Then the state of its files is unknown.
	Err error
	// Listed means that Names are all files. Any other file is gone. Dir is whether the
	// path is a directory.
	Listed, Dir bool
	// Names are the files to look at.
	Names []string
	// Reported are the files with an event. They may have changed even if their times are
	// the same.
	Reported []string
}

// Follower reports the changes at one path. It belongs to one goroutine, except for Busy and Relist.
type Follower struct {
	path               string
	period, pollPeriod time.Duration
	metrics            *metrics
	status             Status
	wake               func() <-chan struct{}

	watches watches
	root    root
	links   links
	// cause is why changes can't be watched; empty if they are.
	cause string

	// busySince is when the work on the newest change began; nil while waiting for a change.
	busySince atomic.Pointer[time.Time]
	// relist means that the path is listed at the next poll.
	relist atomic.Bool
	// began is when the work on the newest change began.
	began time.Time
}

// immediate is the longest time that it takes to receive an event that was already there.
const immediate = 50 * time.Microsecond

// arrived returns the arrival time of the event that is received now. The wait for it began at idle. If the event was already
// there, it arrived during the work before the wait, and the result is the start of that work. config.ArrivedAt is the
// same rule, but this package imports nothing that knows pods.
func (f *Follower) arrived(idle time.Time) time.Time {
	if now := time.Now(); now.Sub(idle) >= immediate {
		return now
	}
	return f.began
}

// New returns a Follower. It does nothing before Changes.
func New(opts Options) *Follower {
	if opts.PollPeriod == 0 {
		opts.PollPeriod = min(defaultPollPeriod, opts.Period)
	}
	if opts.Open == nil {
		opts.Open = Inotify
	}
	if opts.Wake == nil {
		opts.Wake = func() <-chan struct{} { return nil }
	}
	return &Follower{
		path:       opts.Path,
		wake:       opts.Wake,
		period:     opts.Period,
		pollPeriod: opts.PollPeriod,
		metrics:    newMetrics(opts.Registerer),
		status:     Status{Watch: WatchPolling},
		watches:    watches{open: opts.Open},
	}
}

// Changes yields a listing and then each change, until the context is done. It also
// yields a change, possibly without files, when again fires. The caller uses it for files
// to look at again.
func (f *Follower) Changes(ctx context.Context, again <-chan time.Time) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		defer f.watches.close()
		relist := time.NewTicker(f.period)
		defer relist.Stop()
		poll := time.NewTicker(f.pollPeriod)
		defer poll.Stop()

		f.work()
		defer f.Done()
		for change, ok := f.list(ctx), true; ok && yield(change); {
			change, ok = f.next(ctx, relist.C, poll.C, again)
		}
	}
}

// next waits for a change or the end of the context.
func (f *Follower) next(ctx context.Context, relist, poll, again <-chan time.Time) (change Change, ok bool) {
	for {
		f.Done()
		idle := time.Now()
		select {
		case <-ctx.Done():
			return Change{}, false
		case event := <-f.watches.events():
			at := f.arrived(idle)
			f.work()
			change = f.affected(ctx, f.drain(event))
			change.At = at
			return change, true
		case err := <-f.watches.errors():
			f.work()
			f.watchFailed(ctx, err)
			return f.list(ctx), true
		case <-relist:
			f.work()
			return f.list(ctx), true
		case <-poll:
			f.work()
			// Renaming an ancestor, or a mount over the path, causes no event.
			if f.watches.w == nil || f.moved() || f.relist.Swap(false) {
				return f.list(ctx), true
			}
		case <-f.wake():
			f.work()
			return f.list(ctx), true
		case <-again:
			f.work()
			if f.moved() {
				return f.list(ctx), true
			}
			return Change{Began: f.began}, true
		}
	}
}

// drain returns the event and the events in the queue after it.
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

// affected returns the files of the events, and all files if an event affects the path
// itself.
func (f *Follower) affected(ctx context.Context, events []fsnotify.Event) Change {
	reported := make(map[string]struct{}, len(events))
	relist := false
	for _, event := range events {
		if f.watches.lost(event) || f.root.concerns(event.Name) {
			relist = true
			reported[Single] = struct{}{}
		}
		dir, base := filepath.Split(event.Name)
		if f.root.isDir && filepath.Clean(dir) == f.root.real && !strings.HasPrefix(base, ".") {
			reported[base] = struct{}{}
		}
		for _, name := range f.links.dependents[event.Name] {
			reported[name] = struct{}{}
		}
	}
	names := slices.Collect(maps.Keys(reported))
	if relist {
		change := f.list(ctx)
		change.Reported = names
		return change
	}
	return Change{Began: f.began, Names: f.followLinks(ctx, slices.Clone(names)), Reported: names}
}

// watchFailed restarts watching. The lost event may have been the end of a watch.
func (f *Follower) watchFailed(ctx context.Context, err error) {
	f.watches.close()
	logger := klog.FromContext(ctx)
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		f.metrics.overflows.Inc()
		f.status.Overflows++
		logger.Info("The inotify queue overflowed, listing the path again")
		return
	}
	logger.Error(err, "Watching failed, restarting")
}

// moved reports whether the path leads to another place than the watched one.
func (f *Follower) moved() bool {
	info, err := os.Stat(f.path)
	return err != nil || !os.SameFile(info, f.root.info)
}

// list lists the path again.
func (f *Follower) list(ctx context.Context) Change {
	f.metrics.scans.Inc()
	f.followPath(ctx)
	names, isDir, err := List(f.path)
	if err != nil {
		f.root.info = nil // even if the same directory returns
		return Change{At: f.began, Began: f.began, Err: err}
	}
	f.root.isDir = isDir
	f.root.info, _ = os.Stat(f.root.real) // nil if it is gone again, which counts as moved
	if f.arm(ctx) {
		// It became a directory in the meantime, or was replaced by one.
		if again, _, err := List(f.path); err == nil {
			names = again
		}
	}
	if f.links.retain(names) {
		f.links.index()
	}
	return Change{At: f.began, Began: f.began, Listed: true, Dir: isDir, Names: f.followLinks(ctx, names)}
}

// followPath resolves the path, and watches all directories that affect it before anything is read.
// A directory may have changed before it was watched. So the path is resolved again until no
// directory is newly watched.
func (f *Follower) followPath(ctx context.Context) {
	for range maxResolves {
		f.root.hops, f.root.real, _ = resolve(f.path) // Stat has a better error
		if !f.arm(ctx) && f.watches.cover(f.root.hops) {
			return
		}
	}
}

// followLinks resolves the named files that are links, and watches all directories that affect them. It returns the
// names. If a directory is newly watched, it also returns the names of all other links, because earlier changes in
// that directory were not reported.
func (f *Follower) followLinks(ctx context.Context, names []string) []string {
	for range maxResolves {
		changed := false
		for _, name := range names {
			if name != Single { // this is the path itself
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
