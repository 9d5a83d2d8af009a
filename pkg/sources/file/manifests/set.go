package manifests

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

const (
	// removalGrace is how long a file must be missing before its pod is removed. Editors
	// move the old file away or unlink it before they write the new one.
	removalGrace = 50 * time.Millisecond
	// busyRetry and busyRetryMax are the first and the longest wait before the next look
	// at a file that is being written. Each wait is twice the previous one.
	busyRetry    = time.Millisecond
	busyRetryMax = 16 * time.Millisecond
	// busyLimit is the longest wait for a file that is written continuously. Then it is
	// read as it is.
	busyLimit = 2 * time.Second
	// starvedRetry and starvedRetryMax are the first and the longest wait before the next
	// look at a file for which there was no descriptor.
	starvedRetry    = 10 * time.Millisecond
	starvedRetryMax = time.Second
)

// Options configure a Set.
type Options struct {
	// Path is the directory or file. The pods' UIDs depend on its spelling.
	Path string
	// As is used instead of Path for the pods' UIDs; empty for Path.
	As string
	// Decoder decodes the manifests.
	Decoder *manifest.Decoder
	// Registerer is for the metrics; nil for none.
	Registerer prometheus.Registerer
	// Judge is called with each changed verdict on a file, and with nil when the file is
	// gone. It may be nil.
	Judge func(path string, v *v1alpha1.Manifest)
	// Impatient means that files are read even while they are being written.
	Impatient bool
	// Alone reports whether no kubelet runs on the node. It is nil if this is not known.
	Alone func() bool
	// Ignore has patterns of names of files in the directory that are not read.
	Ignore []string
	// Restored is the set from before a restart. Its pods are the last good pods of
	// their files.
	Restored sources.Restored
}

// Set is the pods of the files at a path. It belongs to one goroutine.
type Set struct {
	path   string
	as     string
	looker looker
	judge  func(path string, v *v1alpha1.Manifest)
	// reporter logs the verdicts.
	reporter *sources.Reporter
	// dir is whether the path is a directory.
	dir bool
	// files are the entries by name. order has them in the lexical order of their names, and serves has
	// what the set has of each of them. It is read at each change, and to read each file would take longer.
	files  map[string]*file
	order  []*file
	serves []served
	// pending are the files to look at again: missing, being written, or without a
	// descriptor to open them.
	pending map[*file]struct{}
	claims  claims
	holders holders
	alone   func() bool
	ignore  []string
	// temporary is the constant of that name, except in tests.
	temporary time.Duration
	// waiting are the files whose pod's name or UID belongs to another file.
	waiting map[*file]struct{}
	// noticed is when the change that the set looks at was noticed; zero for a further look. event
	// is when the earliest change since the last call of Event was noticed.
	noticed, event time.Time
	// dropped is the number of restored pods that are not from files at the path.
	dropped int
}

// served is the pod that a file serves, and the file as it was when the pod was read; nil for none.
type served struct {
	pod    *v1.Pod
	source *config.File
}

// file is one entry of the directory, or the single file.
type file struct {
	knowledge
	name, path string
	// as is the path for the pod's UID, usually the same.
	as string
	// pod is the last good pod. serving is the pod in the set, usually the same.
	pod, serving *v1.Pod
	// source is the file that pod was read from, as it was then.
	source *config.File
	fault  *fault
	// conflict says why the file does not serve its pod: owner has its name or UID. original is the file of which it looks
	// like a copy; nil for none.
	conflict        string
	owner, original *file
	warnings        []manifest.Fault
	// unripe means that the file may be temporary, and gives no pod yet. since is when it began to serve a pod.
	unripe bool
	since  time.Time
	// due is the time of the next look at a pending file. missing means that it is the end of removalGrace.
	// The last wait for a file that is being written was busyWait, and for a file without a descriptor starvedWait.
	due         time.Time
	missing     bool
	busyWait    time.Duration
	busySince   time.Time
	starvedWait time.Duration
	verdict     v1alpha1.Manifest
	// noticed is when the change of the file was noticed.
	noticed time.Time
}

// New returns a set of the restored pods.
func New(opts Options) *Set {
	s := &Set{
		path:     opts.Path,
		as:       opts.As,
		looker:   looker{decoder: opts.Decoder, metrics: newMetrics(opts.Registerer), impatient: opts.Impatient},
		judge:    opts.Judge,
		reporter: sources.NewReporter(),
		files:    make(map[string]*file),
		pending:  make(map[*file]struct{}),
		claims:   make(claims),
		holders:  make(holders),
		alone:    opts.Alone,
		ignore:   opts.Ignore,

		temporary: temporary,
		waiting:   make(map[*file]struct{}),
	}
	s.dropped = s.restore(opts.Restored)
	return s
}

// Dropped returns the number of restored pods that are not from files at the path.
func (s *Set) Dropped() int { return s.dropped }

// Notice sets when the change was noticed that the next Look or LookAll looks at; zero for a
// further look at pending files.
func (s *Set) Notice(at time.Time) { s.noticed = at }

// Event returns when the earliest change of the set since the last call was noticed; zero if there
// was no change.
func (s *Set) Event() (at time.Time) {
	at, s.event = s.event, time.Time{}
	return at
}

// renewed records that the set changes because of the file.
func (s *Set) renewed(f *file) {
	if !f.noticed.IsZero() && (s.event.IsZero() || f.noticed.Before(s.event)) {
		s.event = f.noticed
	}
}

// Look looks at the named files and at the files that are due, and updates the set. It
// reports whether the set changed.
func (s *Set) Look(ctx context.Context, names []string) (changed bool) {
	now := time.Now()
	for _, name := range names {
		if f := s.files[name]; f != nil && !s.noticed.IsZero() {
			f.noticed = s.noticed
		}
	}
	names = slices.Clone(names)
	for f := range s.pending {
		if !f.due.After(now) {
			names = append(names, f.name)
		}
	}
	return s.lookAt(ctx, names)
}

// LookAll is Look for a listing: names are all files. It also looks at known files that
// are not among them.
func (s *Set) LookAll(ctx context.Context, dir bool, names []string) (changed bool) {
	s.dir = dir
	for _, f := range s.files {
		if _, pending := s.pending[f]; !pending { // its change was noticed before
			f.noticed = s.noticed
		}
	}
	return s.lookAt(ctx, slices.Concat(names, s.names()))
}

// LookAgain looks at all known files.
func (s *Set) LookAgain(ctx context.Context) (changed bool) {
	return s.lookAt(ctx, s.names())
}

// Outdate marks the files that were decoded by other rules. The next look at such a file decodes it, even if it is unchanged.
func (s *Set) Outdate() {
	rules := s.looker.decoder.Rules()
	for _, f := range s.files {
		f.decoded = f.decoded && f.rules == rules
	}
}

// lookAt looks at the named files. If the path is a file where a directory was before, the
// files of the directory are gone only once the file gives a pod. Until then, their pods
// are held, and these files are not looked at.
func (s *Set) lookAt(ctx context.Context, names []string) (changed bool) {
	if s.dir {
		return s.examine(ctx, slices.DeleteFunc(names, s.ignores))
	}
	if slices.Contains(names, follow.Single) {
		changed = s.examine(ctx, []string{follow.Single})
	}
	if s.Unusable() {
		s.hold(func(f *file) bool { return f.name != follow.Single })
		return changed
	}
	before := slices.DeleteFunc(s.names(), func(name string) bool { return name == follow.Single })
	return s.examine(ctx, before) || changed
}

// ignores reports whether a file of the directory is not read.
func (s *Set) ignores(name string) bool {
	return name != follow.Single && slices.ContainsFunc(s.ignore, func(pattern string) bool {
		matches, _ := filepath.Match(pattern, name) // the configuration is valid
		return matches
	})
}

// Distrust marks files with a reported change. Their times no longer prove that they are
// unchanged.
func (s *Set) Distrust(names []string) {
	for _, name := range names {
		if f := s.files[name]; f != nil {
			f.trusted = false
		}
	}
}

// Hold marks the path as unreadable. Missing files are missing for that reason, so
// nothing is removed.
func (s *Set) Hold() { s.hold(func(*file) bool { return true }) }

// hold forgets that the selected files are to be looked at again.
func (s *Set) hold(selected func(*file) bool) {
	maps.DeleteFunc(s.pending, func(f *file, _ struct{}) bool {
		if !selected(f) {
			return false
		}
		f.missing, f.busySince, f.busyWait, f.starvedWait, f.unripe = false, time.Time{}, 0, 0, false
		return true
	})
}

// Unsettled returns the number of files to look at again, and when the first is due.
func (s *Set) Unsettled() (n int, due time.Time) {
	for f := range s.pending {
		if due.IsZero() || f.due.Before(due) {
			due = f.due
		}
	}
	return len(s.pending), due
}

// Unread reports whether files could not be read yet, because they are being written or because there was no descriptor,
// whether they may be temporary, or whether files of restored pods are missing and have not been gone for long enough.
func (s *Set) Unread() bool {
	for f := range s.pending {
		if f.busyWait > 0 || f.starvedWait > 0 || f.unripe || f.missing && !f.decoded {
			return true
		}
	}
	return false
}

// Unusable reports whether the path is a single file that has never given a pod.
func (s *Set) Unusable() bool {
	f := s.files[follow.Single]
	return !s.dir && f != nil && f.pod == nil
}

// Pods returns the pods of all files, sorted by file name, and the file of each as it was when the pod was read.
func (s *Set) Pods() ([]*v1.Pod, []*config.File) {
	pods, files := make([]*v1.Pod, 0, len(s.serves)), make([]*config.File, 0, len(s.serves))
	for _, has := range s.serves {
		if has.pod != nil {
			pods, files = append(pods, has.pod), append(files, has.source)
		}
	}
	return pods, files
}

// Len returns the number of pods.
func (s *Set) Len() (n int) {
	for _, has := range s.serves {
		if has.pod != nil {
			n++
		}
	}
	return n
}

// names returns the names of all entries.
func (s *Set) names() []string {
	names := make([]string, len(s.order))
	for i, f := range s.order {
		names[i] = f.name
	}
	return names
}

// place returns the place of a name in the order, and whether there is an entry with it.
func (s *Set) place(name string) (int, bool) {
	return slices.BinarySearchFunc(s.order, name, func(f *file, name string) int { return strings.Compare(f.name, name) })
}

// addFile adds an entry with the name.
func (s *Set) addFile(name string) *file {
	f := &file{name: name, path: follow.Join(s.path, name), noticed: s.noticed}
	f.as = filepath.ToSlash(f.path)
	if s.as != "" {
		f.as = path.Join(s.as, filepath.Base(f.path)) // a path on Linux, wherever this runs
	}
	s.files[name] = f
	at, _ := s.place(name)
	s.order, s.serves = slices.Insert(s.order, at, f), slices.Insert(s.serves, at, served{})
	return f
}

// serve records what the file serves, if it has not been dropped.
func (s *Set) serve(f *file) {
	at, found := s.place(f.name)
	if !found {
		return
	}
	source := f.source
	if f.serving != nil && source != nil {
		name := claimsOf(f.serving)[0]
		if before := s.holders.before(name, f.name); len(before) > 0 {
			has := *source
			has.Before = strings.Join(before, "/")
			if source = s.serves[at].source; source == nil || *source != has {
				source = &has
			}
		}
	}
	s.serves[at] = served{f.serving, source}
}

func (s *Set) drop(f *file) {
	delete(s.files, f.name)
	delete(s.pending, f)
	if at, found := s.place(f.name); found {
		s.order, s.serves = slices.Delete(s.order, at, at+1), slices.Delete(s.serves, at, at+1)
	}
	if s.judge != nil {
		s.judge(f.as, nil)
	}
}
