package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
)

// DefaultPeriod is the full relist interval, in addition to inotify.
//
// kubelet: fileCheckFrequency.
const DefaultPeriod = 20 * time.Second

// Options configure a Source.
type Options struct {
	// Name is the name of the source; empty for config.FileSource.
	Name string
	// Path is the directory or file. The pods' UIDs depend on its spelling.
	Path string
	// Decoder decodes the manifests.
	Decoder *manifest.Decoder
	// Period is the full relist interval; 0 means DefaultPeriod.
	Period time.Duration
	// Ignore has patterns of file names, as those of path.Match. Files of a directory with such a name are not read.
	Ignore []string
	// Alone reports whether no kubelet runs on the node. If it is nil, one may run.
	Alone func() bool
	// Restored is the set from before a restart. Pods of files at other paths are
	// not part of it.
	Restored sources.Restored
	// Registerer is for the source's metrics; nil for none.
	Registerer prometheus.Registerer

	openWatcher func() (follow.Watcher, error)
	pollPeriod  time.Duration
	stuckAfter  time.Duration
}

// Source reads the pods of a directory or file. Its state belongs to the goroutine of
// follow, except for stuck and last.
//
//	inotify, relist --> Follower --> manifests.Set --> SourceSet
//	                    (which        (a verdict and    (all pods)
//	                    names)        a pod of each)
//
// For each change:
//  1. The [follow.Follower] reports names whose files may have changed, or lists the path.
//  2. The [manifests.Set] examines these files, and reads and decodes those that differ. The board gets their verdicts. A file
//     that is bad now keeps its pod.
//  3. If the pods changed, keep stores the set for Last.
//  4. send sends the set. The first set waits until the path and its files can be read.
//
// If the path can't be read, the source is degraded and sends nothing. But a path that never existed gives an empty set.
//
// kubelet: pkg/kubelet/config/file.go.
type Source struct {
	name     string
	path     string
	board    *board
	follower *follow.Follower
	set      *manifests.Set
	decoder  *manifest.Decoder
	// outdated is closed when the manifests must be decoded again, by the rules of another kubelet.
	outdated <-chan struct{}

	// known means that a set can be sent: the path was read, or was absent at the start.
	known bool
	// absent means that the path was absent at the start and still is.
	absent bool
	// held means that a directory was replaced by an unusable file. The pods of the directory are held.
	held bool
	// lost means that the path could not be read at the last attempt.
	lost bool
	sent bool

	stuckAfter time.Duration
	// stuck means that the source is degraded because an access to the files does not return.
	stuck atomic.Bool
	// last is the last set.
	last atomic.Pointer[config.SourceSet]
}

// errReplaced is the error of a source whose directory was replaced.
var errReplaced = errors.New("the directory was replaced by a file that can't be used, see its verdict: " +
	"correct the file, or restore the directory")

// New returns a source. It does nothing before Run.
func New(opts Options) *Source {
	path := follow.Clean(opts.Path)
	if opts.Period == 0 {
		opts.Period = DefaultPeriod
	}
	name := cmp.Or(opts.Name, config.FileSource)
	s := &Source{name: name, path: path, decoder: opts.Decoder, outdated: opts.Decoder.Changed(), stuckAfter: cmp.Or(opts.stuckAfter, stuckAfter), board: newBoard(name, path, opts.Registerer)}
	s.follower = follow.New(follow.Options{
		Path: path, Period: opts.Period, PollPeriod: opts.pollPeriod, Registerer: opts.Registerer, Open: opts.openWatcher,
		Wake: func() <-chan struct{} { return s.outdated },
	})
	s.set = manifests.New(manifests.Options{
		Path: path, Decoder: opts.Decoder, Registerer: opts.Registerer, Judge: s.board.judge,
		Restored: opts.Restored, Ignore: opts.Ignore, Alone: opts.Alone,
	})
	s.keep()
	return s
}

// Status returns the status of the source and of each manifest. It can be called at any
// time.
func (s *Source) Status() v1alpha1.SourceStatus { return s.board.read() }

// Last returns the set of the source. It makes the source a sources.Predecessor.
func (s *Source) Last() sources.Restored {
	set := s.last.Load()
	last := sources.Restored{Pods: set.Pods, Files: make(map[types.UID]*config.File, len(set.Pods))}
	for i, pod := range set.Pods {
		last.Files[pod.UID] = set.Files[i]
	}
	return last
}

// keep stores the set for Last, and to be sent.
func (s *Source) keep() {
	pods, files := s.set.Pods()
	s.last.Store(&config.SourceSet{Pods: pods, Origin: s.path, Files: files})
}

// follow sends the set of pods at each change until the context is done, and returns
// its cause.
func (s *Source) follow(ctx context.Context, sets chan<- config.SourceSet) error {
	if n := s.set.Dropped(); n > 0 {
		klog.FromContext(ctx).Info("The manifest path has changed, the pods of the other path will be removed", "pods", n)
	}
	if absolute, err := filepath.Abs(s.path); err == nil && absolute != s.path && !filepath.IsAbs(s.path) {
		klog.FromContext(ctx).Info("The manifest path is relative. The UIDs of the pods depend on its spelling: an absolute path, "+
			"as a config file makes it, recreates them", "absolute", absolute)
	}
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop()
	for change := range s.follower.Changes(ctx, again.C) {
		changed := s.applyChange(ctx, change)
		if changed {
			s.keep()
		}
		unsettled, due := s.set.Unsettled()
		s.board.follow(s.follower.Status(), unsettled)
		if err := s.send(ctx, changed, config.Event{Time: change.At, Began: change.Began}, sets); err != nil {
			return err
		}
		again.Stop()
		if unsettled > 0 {
			again.Reset(time.Until(due))
		}
	}
	return context.Cause(ctx)
}

// applyChange looks at the files that may have changed. It reports whether the set changed.
func (s *Source) applyChange(ctx context.Context, change follow.Change) (changed bool) {
	if change.Listed || change.Err != nil {
		defer s.stuck.Store(false)
	}
	s.set.Distrust(change.Reported)
	s.set.Notice(change.At)
	outdated := s.isOutdated()
	if outdated {
		s.set.Outdate()
	}
	switch {
	case change.Err != nil:
		s.unavailable(ctx, change.Err)
		return false
	case change.Listed:
		s.known = true
		changed = s.set.LookAll(ctx, change.Dir, change.Names)
	default:
		changed = s.set.Look(ctx, change.Names)
	}
	if outdated && !change.Listed {
		changed = s.set.LookAgain(ctx) || changed
	}
	for s.isOutdated() { // by what was decoded
		s.set.Outdate()
		changed = s.set.LookAgain(ctx) || changed
	}
	s.lost = s.lost && !change.Listed
	wasHeld := s.held
	s.held = s.set.Unusable() && s.set.Len() > 0
	switch {
	case s.lost: // its error stands
	case s.held:
		s.board.Failed(ctx, sources.Because(sources.ReasonReplaced, errReplaced), "Failed to read the manifest path, keeping its last pods", "pods", s.set.Len())
	case change.Listed || wasHeld:
		s.available(ctx)
	}
	return changed
}

// isOutdated reports whether all manifests must be decoded again.
func (s *Source) isOutdated() bool {
	select {
	case <-s.outdated:
		s.outdated = s.decoder.Changed()
		return true
	default:
		return false
	}
}

// send sends the set if it changed. With the first set, the source counts as seen. So the
// first set waits for files that could not be read yet, until a restored pod whose file is missing is removed, for a path
// that can no longer be read, and for a single file that is not good yet.
//
// kubelet: pkg/kubelet/config/file.go listConfig.
func (s *Source) send(ctx context.Context, changed bool, event config.Event, sets chan<- config.SourceSet) error {
	if s.sent && !changed {
		s.set.Event() // of changes that changed nothing
		return nil
	}
	if !s.sent && (!s.known || s.lost || s.set.Unread() || s.set.Unusable()) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // Run may have returned, and another source may send on sets
	}
	set := *s.last.Load()
	set.Event = config.Event{Time: cmp.Or(s.set.Event(), event.Time), Began: event.Began, Read: time.Now()}
	s.follower.Done() // what takes the set may wait for a disk
	select {
	case sets <- set:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.sent = true
	s.board.Sent()
	return nil
}

// unavailable records that the path can't be read. A path that never existed, not even before a
// restart, gives an empty set. Any other path keeps its set.
func (s *Source) unavailable(ctx context.Context, err error) {
	logger := klog.FromContext(ctx)
	neverRead := !s.known || s.absent || !s.sent && s.set.Unusable()
	if errors.Is(err, fs.ErrNotExist) && neverRead && s.set.Len() == 0 {
		s.set.LookAll(ctx, false, nil) // a file that was not good is gone
		if !s.absent {
			logger.Info("The manifest path does not exist yet; until it does, the source has no pods")
		}
		s.board.WasRead()
		s.known, s.absent, s.lost = true, true, false
		s.board.update(func(status *v1alpha1.FileStatus) { status.Absent = true })
		return
	}
	s.set.Hold()
	s.lost = true
	s.board.Failed(ctx, err, "Failed to read the manifest path, keeping its last pods", "pods", s.set.Len())
}

// available records that the path can be read.
func (s *Source) available(ctx context.Context) {
	s.known, s.absent = true, false
	s.board.update(func(status *v1alpha1.FileStatus) { status.Absent = false })
	s.board.Succeeded(ctx, "The manifest path can be read again")
}

const (
	// stuckAfter is how long an access to the files takes before the source counts as degraded.
	stuckAfter = 10 * time.Second
	// stopGrace is how long Run waits for an access to the files after its context is done.
	stopGrace = 500 * time.Millisecond
)

// Run sends the set of pods at each change until the context is done, and returns
// its cause.
//
// A system call on a file system that does not answer, for example that of a server that is gone,
// can't be interrupted. Then the source is degraded, and Run returns without its goroutine. The
// goroutine ends when the file system answers. It sends nothing any more.
func (s *Source) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("source", s.name, "path", s.path))
	done := make(chan error, 1)
	go func() { done <- s.follow(ctx, sets) }()
	look := time.NewTicker(max(s.stuckAfter/4, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-look.C:
			if took := s.follower.Busy(); took >= s.stuckAfter && s.stuck.CompareAndSwap(false, true) {
				s.board.Failed(ctx, fmt.Errorf("reading the path takes longer than %v: the file system may not answer", s.stuckAfter),
					"Failed to read the manifest path, keeping its last pods")
				s.follower.Relist()
			}
		case <-ctx.Done():
			return s.abandon(ctx, done)
		}
	}
}

// abandon waits for the end of follow, but not for long.
func (s *Source) abandon(ctx context.Context, done <-chan error) error {
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		klog.FromContext(ctx).Info("Stopped reading the manifest path, although its file system does not answer")
		return context.Cause(ctx)
	}
}
