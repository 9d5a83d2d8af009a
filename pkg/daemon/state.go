package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// state is the journal's log on disk. Without a state directory it has no log, and nothing is restored.
type state struct {
	dir       string
	log       *store.Log
	recovered *store.Recovered
	// restored are the pods of each configured source that was seen before the start. updates add
	// the same pods to the sync loop.
	restored map[string]sources.Restored
	updates  []config.PodUpdate
	// forgotten are the sources that are no longer configured, with their number of pods.
	forgotten map[string]int
	// owners returns the owners of a pod; nil if they are not resolved.
	owners func(*journal.Pod) []v1alpha1.Owner
}

func openState(c *Config, node types.NodeName, registry prometheus.Registerer) (*state, error) {
	if c.StateDir == "" {
		return &state{}, nil
	}
	log, recovered, err := store.Open(store.Options{
		Dir: c.StateDir, Node: string(node), MaxAge: c.StateMaxAge.Duration, MaxBytes: *c.StateMaxBytes,
		ReplayBytes: *c.JournalMaxBytes, Registerer: registry,
	})
	switch {
	case errors.Is(err, store.ErrLocked):
		return nil, fmt.Errorf("--state-dir: %w: stop it, or choose another directory", err)
	case err != nil:
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	return &state{dir: c.StateDir, log: log, recovered: recovered}, nil
}

// restore gives each configured source the pods that it had before the start. The journal, which has all that was
// recovered, forgets the other sources.
func (s *state) restore(j *journal.Journal, configured []string) {
	if s.log == nil {
		return
	}
	s.restored, s.forgotten = make(map[string]sources.Restored), make(map[string]int)
	pods := j.State().Pods
	for name, source := range j.Sources() {
		if slices.Contains(configured, name) {
			s.restoreSource(name, pods, source.Attributes)
		} else {
			s.forgotten[name] = j.Forget(name)
		}
	}
	s.recovered.Base, s.recovered.Sets = nil, nil // the journal has them, and drops what is too old
}

func (s *state) restoreSource(name string, pods []*journal.Pod, attributes map[string]string) {
	r := sources.Restored{Pods: []*v1.Pod{}, Files: make(map[types.UID]*config.File), Attributes: attributes}
	u := config.PodUpdate{Op: config.ADD, Source: name}
	for _, p := range pods {
		if p.Source != name {
			continue
		}
		r.Pods = append(r.Pods, p.Merged)
		if p.File != nil {
			r.Files[p.Merged.UID] = p.File
		}
		u.Pods, u.Files, u.Statuses = append(u.Pods, p.Merged), append(u.Files, p.File), append(u.Statuses, p.Status)
	}
	s.restored[name], s.updates = r, append(s.updates, u)
}

// parts are the part that writes the log.
func (s *state) parts() []part {
	if s.log == nil {
		return nil
	}
	return []part{{
		name: "state", run: s.log.Run, status: s.status, ready: []server.Check{{Name: "state", Check: s.check}},
		apply: applied(func(c *Config) { s.log.SetLimits(c.StateMaxAge.Duration, *c.StateMaxBytes) }),
	}}
}

// check returns why updates are not stored, or nil.
func (s *state) check() error {
	if status := s.log.Status(); status.Err != nil {
		return fmt.Errorf("state directory %s: updates are not stored since %s: %w", s.dir, status.Since.Format("15:04:05"), advise(status.Err))
	}
	return nil
}

// close ends a log that was not run.
func (s *state) close() {
	if s.log != nil {
		_ = s.log.Close() // nothing was stored
	}
}

// report logs what was found at the start.
func (s *state) report(logger logr.Logger) {
	if s.log == nil {
		return
	}
	logger = logger.WithValues("stateDir", s.dir)
	usable := true
	for _, p := range s.recovered.Problems {
		usable = usable && p.File != s.dir
		logger := logger.WithValues("file", p.File)
		if p.Aside != "" {
			logger = logger.WithValues("setAside", p.Aside)
		}
		logger.Error(advise(p.Err), "A file in the state directory can't be used, or not to its end")
	}
	if info, err := os.Stat(s.dir); err == nil && info.Mode().Perm()&0o022 != 0 {
		logger.Info("Other users can write to the state directory, and so change the pods that the next start restores; run chmod 0700",
			"mode", fmt.Sprintf("%04o", unixMode(info.Mode())))
	}
	pods := 0
	for _, r := range s.restored {
		pods += len(r.Pods)
	}
	switch r := s.recovered; {
	case r.Resumed:
		logger.Info("Restored the journal: subscribers can resume", "instance", r.Instance, "revision", r.Revision, "pods", pods)
	case !usable && r.Reason == store.NoJournal: // the problem says why there is none
	case r.Reason == store.NoJournal:
		logger.Info("Made a journal in the state directory", "instance", r.Instance)
	default:
		logger.Info("Started a new journal: subscribers start again", "instance", r.Instance, "reason", r.Reason, "pods", pods)
	}
	for name, pods := range s.forgotten {
		logger.Info("Removing the pods of a source that is no longer configured", "source", name, "pods", pods)
	}
}

// unixMode returns the permissions with the sticky bit, as chmod has them.
func unixMode(mode fs.FileMode) fs.FileMode {
	if mode&fs.ModeSticky != 0 {
		return mode.Perm() | 0o1000
	}
	return mode.Perm()
}

// past returns a function that reads from the log the pods that were removed since a time, the first one first; nil without a log.
func (s *state) past() func(since time.Time) iter.Seq2[*journal.Pod, time.Time] {
	if s.log == nil {
		return nil
	}
	return func(since time.Time) iter.Seq2[*journal.Pod, time.Time] {
		return func(yield func(*journal.Pod, time.Time) bool) {
			for r, err := range store.History(store.OS, s.dir, store.HistoryOptions{Since: since}) {
				if err != nil {
					klog.Background().Error(err, "Reading from the journal the pods that ended failed; lookups do not know the later ones", "stateDir", s.dir)
					return
				}
				if r.Op == config.REMOVE && r.Pod != nil && !yield(r.Pod, r.Time) {
					return
				}
			}
		}
	}
}

// wholePods returns a function that reads from the log the pods whose removals were observed at some times; nil without a log. It
// reads the log once for all of them, and for one call at a time: a reading takes a second if ten thousand pods ended in one go.
func (s *state) wholePods() func(context.Context, map[types.UID]time.Time) map[types.UID]*journal.Pod {
	if s.log == nil {
		return nil
	}
	reading := make(chan struct{}, 1)
	return func(ctx context.Context, at map[types.UID]time.Time) map[types.UID]*journal.Pod {
		select {
		case reading <- struct{}{}:
			defer func() { <-reading }()
		case <-ctx.Done():
			return nil
		}
		const (
			exact = time.Millisecond // the log's times are not finer
			late  = time.Minute      // the lookup may have fallen behind the journal
		)
		times := slices.SortedFunc(maps.Values(at), time.Time.Compare)
		if len(times) == 0 {
			return nil
		}
		first, last := times[0].Add(-late), times[len(times)-1].Add(exact)
		found := make(map[types.UID]*journal.Pod)
		for pod, removed := range s.past()(first) {
			if ctx.Err() != nil || removed.After(last) && len(found) == len(at) {
				break
			}
			// What comes after a later one was removed after the clock was set back.
			observed, wanted := at[pod.Object.UID]
			if wanted && !removed.After(observed.Add(exact)) && !removed.Before(observed.Add(-late)) {
				found[pod.Object.UID] = pod
			}
		}
		return found
	}
}

// advise adds to an error what to do about it, if that is not clear from it.
func advise(err error) error {
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%w: podconfigd runs as user %d, who must own the directory and its files", err, os.Geteuid())
	}
	return err
}

// history returns a reader of the changes on disk; nil without a log.
func (s *state) history() func(history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
	if s.log == nil {
		return nil
	}
	return func(opts history.Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
		opts.Owners = s.owners
		return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
			end := func() bool {
				status := s.log.Status()
				return status.Err == nil || yield(&v1alpha1.HistoryRecord{
					Time: &status.Since, Instance: status.Instance, Gap: fmt.Sprintf("updates are not stored: %v", advise(status.Err)),
				}, nil)
			}
			if opts.Newest && opts.Before == 0 && !end() {
				return
			}
			for record, err := range history.Read(s.dir, opts) {
				if !yield(record, err) || err != nil {
					return
				}
			}
			if !opts.Newest {
				end()
			}
		}
	}
}

// status adds the status of the log.
func (s *state) status(status *v1alpha1.Status) {
	log := s.log.Status()
	status.State = &v1alpha1.StateStatus{Dir: s.dir, Stored: log.Err == nil, Segments: log.Segments, Bytes: log.Bytes}
	if log.Err != nil {
		status.State.LastError, status.State.FailedSince = advise(log.Err).Error(), &log.Since
	}
}
