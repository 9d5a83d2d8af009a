package file

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

const (
	// DefaultPeriod is how often the path is listed whatever inotify says.
	//
	// kubelet: fileCheckFrequency.
	DefaultPeriod = 20 * time.Second
	// pollPeriod is how often it is listed where inotify can't be had.
	pollPeriod = time.Second
	// removalGrace is for how long a file must be gone before its pod is. Editors
	// move the old file away or unlink it before they write the new one.
	removalGrace = 50 * time.Millisecond
	// busyRetry and busyRetryMax are the waits between looks at a file that is
	// being written; each is twice the one before.
	busyRetry    = time.Millisecond
	busyRetryMax = 16 * time.Millisecond
	// busyLimit is for how long a file is left alone that is written without end; it
	// is read as it stands then.
	busyLimit = 2 * time.Second

	watchInotify = "inotify"
	watchPolling = "polling"
)

// Options say what a Source reads.
type Options struct {
	// Path is the directory or file. It is part of the pods' UIDs as written.
	Path string
	// Decoder decodes the manifests.
	Decoder *manifest.Decoder
	// Period is how often the path is listed besides; 0 stands for DefaultPeriod.
	Period time.Duration
	// Registerer takes the source's metrics; nil for none.
	Registerer prometheus.Registerer

	openWatcher func() (watcher, error)
	pollPeriod  time.Duration
}

// Source is the source of the pods of a directory or file. Its state belongs to
// the goroutine of Run.
//
// kubelet: pkg/kubelet/config/file.go.
type Source struct {
	path   string
	period time.Duration
	// pollPeriod is how often the path is looked at for what inotify does not tell.
	pollPeriod time.Duration
	looker     looker
	metrics    *metrics
	board      *board
	watches    watches

	root root
	// files are the entries by name, and order their names in lexical order.
	files map[string]*manifestFile
	order []string
	// pending are the files that are to be looked at again: gone, or being written.
	pending map[*manifestFile]struct{}
	claims  claims
	// waiting are the files whose pod's name or UID another file has.
	waiting map[*manifestFile]struct{}
	// links says which files depend on a directory entry, by its path.
	links      map[string][]string
	linksDirty bool
	sent       bool
}

// manifestFile is one entry of the directory, or the single file.
type manifestFile struct {
	knowledge
	name, path string
	// pod is the last good one; serving the one in the set, as a rule the same.
	pod, serving *v1.Pod
	fault        *fault
	conflict     string
	warnings     []string
	hops         []hop
	// due is when to look again while the file is pending, for it is gone since
	// goneSince or is being written and was last left for busyWait.
	due       time.Time
	goneSince time.Time
	busyWait  time.Duration
	busySince time.Time
	verdict   v1alpha1.Manifest
}

// New returns a source. It does nothing before Run.
func New(opts Options) *Source {
	// The kubelet does the same, and the path is part of the UID.
	path := strings.TrimRight(opts.Path, string(filepath.Separator))
	if path == "" {
		path = string(filepath.Separator)
	}
	if opts.Period == 0 {
		opts.Period = DefaultPeriod
	}
	if opts.pollPeriod == 0 {
		opts.pollPeriod = min(pollPeriod, opts.Period)
	}
	if opts.openWatcher == nil {
		opts.openWatcher = newInotify
	}
	m := newMetrics(opts.Registerer)
	return &Source{
		path:       path,
		period:     opts.Period,
		pollPeriod: opts.pollPeriod,
		looker:     looker{decoder: opts.Decoder, metrics: m},
		metrics:    m,
		board:      newBoard(path, m),
		watches:    watches{open: opts.openWatcher},
		files:      make(map[string]*manifestFile),
		pending:    make(map[*manifestFile]struct{}),
		claims:     make(claims),
		waiting:    make(map[*manifestFile]struct{}),
	}
}

// Status returns what the source knows of itself and of each manifest. It can be
// called at any time.
func (s *Source) Status() v1alpha1.SourceStatus { return s.board.read() }

// Run sends the set of pods at each change until the context is done, and returns
// its cause.
func (s *Source) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("source", config.FileSource, "path", s.path))
	defer s.watches.close()
	relist := time.NewTicker(s.period)
	defer relist.Stop()
	poll := time.NewTicker(s.pollPeriod)
	defer poll.Stop()
	again := time.NewTimer(0)
	defer again.Stop()

	dirty := s.list(ctx)
	for {
		if err := s.settle(ctx, dirty, sets); err != nil {
			return err
		}
		dirty = nil
		s.rouse(again)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-s.watches.events():
			dirty = s.affected(ctx, s.drain(event))
		case err := <-s.watches.errors():
			s.watchFailed(ctx, err)
			dirty = s.list(ctx)
		case <-relist.C:
			dirty = s.list(ctx)
		case <-poll.C:
			// An ancestor that is renamed, or mounted over, tells nobody.
			if s.watches.w == nil || s.moved() {
				dirty = s.list(ctx)
			}
		case <-again.C:
			dirty = s.overdue(ctx)
		}
	}
}

// rouse sets the timer to the first moment at which a file is to be looked at
// again.
func (s *Source) rouse(timer *time.Timer) {
	s.board.update(func(status *v1alpha1.FileStatus) { status.Settling = len(s.pending) })
	var first time.Time
	for f := range s.pending {
		if first.IsZero() || f.due.Before(first) {
			first = f.due
		}
	}
	if first.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(time.Until(first))
}

// overdue returns the files that are to be looked at again by now.
func (s *Source) overdue(ctx context.Context) []string {
	if s.moved() {
		return s.list(ctx)
	}
	now := time.Now()
	var names []string
	for f := range s.pending {
		if !f.due.After(now) {
			names = append(names, f.name)
		}
	}
	return names
}

// drain returns the event and those that wait behind it.
func (s *Source) drain(event fsnotify.Event) []fsnotify.Event {
	events := []fsnotify.Event{event}
	for len(events) < 1024 {
		select {
		case event := <-s.watches.events():
			events = append(events, event)
		default:
			return events
		}
	}
	return events
}

// affected returns the files that the events concern, after a new listing where
// they concern the path itself.
func (s *Source) affected(ctx context.Context, events []fsnotify.Event) []string {
	names := make(map[string]struct{}, len(events))
	for _, event := range events {
		if s.watches.lost(event) || s.root.concerns(event.Name) {
			s.distrust(singleFile)
			return s.list(ctx)
		}
		dir, base := filepath.Split(event.Name)
		if s.root.isDir && filepath.Clean(dir) == s.root.real && !strings.HasPrefix(base, ".") {
			names[base] = struct{}{}
		}
		for _, name := range s.links[event.Name] {
			names[name] = struct{}{}
		}
	}
	dirty := slices.Collect(maps.Keys(names))
	s.distrust(dirty...)
	return dirty
}

// distrust marks files of which something was said: that their times are as
// before proves nothing then.
func (s *Source) distrust(names ...string) {
	for _, name := range names {
		if f := s.files[name]; f != nil {
			f.trusted = false
		}
	}
}

// watchFailed starts watching anew: what was not told may be that a watch ended.
func (s *Source) watchFailed(ctx context.Context, err error) {
	s.watches.close()
	logger := klog.FromContext(ctx)
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		s.metrics.overflows.Inc()
		s.board.update(func(status *v1alpha1.FileStatus) { status.Overflows++ })
		logger.Info("The inotify queue overflowed, listing the path anew")
		return
	}
	logger.Error(err, "Watching failed, starting it anew")
}

// settle looks at the files named and sends the set if that changed anything.
func (s *Source) settle(ctx context.Context, dirty []string, sets chan<- config.SourceSet) error {
	changed := s.examine(ctx, dirty)
	for s.linksDirty {
		s.linksDirty = false
		if s.arm(ctx) {
			// What the new watches stand on may have changed before they stood.
			changed = s.examine(ctx, s.linked()) || changed
		}
	}
	switch {
	case s.sent && !changed:
		return nil
	case !s.sent && (!s.root.known || s.busy()):
		return nil
	}
	select {
	case sets <- config.SourceSet{Pods: s.set()}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.sent = true
	s.board.Sent()
	return nil
}

// busy tells whether any file is being written. The first set waits for those: it
// says that the source has been seen.
func (s *Source) busy() bool {
	for f := range s.pending {
		if f.busyWait > 0 {
			return true
		}
	}
	return false
}

// set returns the pods of all files, in the order of the files' names.
func (s *Source) set() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(s.order))
	for _, name := range s.order {
		if f := s.files[name]; f.serving != nil {
			pods = append(pods, f.serving)
		}
	}
	return pods
}
