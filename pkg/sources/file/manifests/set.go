package manifests

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

const (
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
	// starvedRetry and starvedRetryMax are the waits between looks at a file for which
	// there is no descriptor.
	starvedRetry    = 10 * time.Millisecond
	starvedRetryMax = time.Second
)

// Options say what a Set is made of.
type Options struct {
	// Path is the directory or file. It is part of the pods' UIDs as written.
	Path string
	// As is the directory that the pods' UIDs are to have instead; empty for Path.
	As string
	// Decoder decodes the manifests.
	Decoder *manifest.Decoder
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Judge is called with each verdict on a file that differs from the one before,
	// and with nil when the file is gone. It may be nil.
	Judge func(path string, v *v1alpha1.Manifest)
	// Impatient: files are read even while they are being written.
	Impatient bool
}

// Set is the pods of the files below a path. It belongs to one goroutine.
type Set struct {
	path   string
	as     string
	looker looker
	judge  func(path string, v *v1alpha1.Manifest)
	// reporter logs the verdicts.
	reporter *sources.Reporter
	// dir: the path is a directory.
	dir bool
	// files are the entries by name, and order their names in lexical order.
	files map[string]*file
	order []string
	// pending are the files that are to be looked at again: gone, being written, or
	// without a descriptor to open them.
	pending map[*file]struct{}
	claims  claims
	// waiting are the files whose pod's name or UID another file has.
	waiting map[*file]struct{}
}

// file is one entry of the directory, or the single file.
type file struct {
	knowledge
	name, path string
	// as is the path that the pod's UID has, as a rule the same.
	as string
	// pod is the last good one; serving the one in the set, as a rule the same.
	pod, serving *v1.Pod
	fault        *fault
	conflict     string
	warnings     []manifest.Fault
	// due is when to look again while the file is pending: it is gone since goneSince,
	// is being written and was last left for busyWait, or could not be opened for want
	// of a descriptor and was last left for starvedWait.
	due         time.Time
	goneSince   time.Time
	busyWait    time.Duration
	busySince   time.Time
	starvedWait time.Duration
	verdict     v1alpha1.Manifest
}

// New returns a set without files.
func New(opts Options) *Set {
	return &Set{
		path:     opts.Path,
		as:       opts.As,
		looker:   looker{decoder: opts.Decoder, metrics: newMetrics(opts.Registerer), impatient: opts.Impatient},
		judge:    opts.Judge,
		reporter: sources.NewReporter(),
		files:    make(map[string]*file),
		pending:  make(map[*file]struct{}),
		claims:   make(claims),
		waiting:  make(map[*file]struct{}),
	}
}

// Look looks at the files of these names, and at those that are due, and works out
// what that makes of the set. It tells whether the set changed.
func (s *Set) Look(ctx context.Context, names []string) (changed bool) {
	now := time.Now()
	names = slices.Clone(names)
	for f := range s.pending {
		if !f.due.After(now) {
			names = append(names, f.name)
		}
	}
	return s.examine(ctx, names)
}

// LookAll is Look where these are all the files that are there. Files that are known
// and not among the names are looked at too.
func (s *Set) LookAll(ctx context.Context, dir bool, names []string) (changed bool) {
	s.dir = dir
	return s.examine(ctx, slices.Concat(names, s.order))
}

// Distrust notes that something was said of the files: that their times are as
// before proves nothing then.
func (s *Set) Distrust(names []string) {
	for _, name := range names {
		if f := s.files[name]; f != nil {
			f.trusted = false
		}
	}
}

// Hold notes that the path can't be read: whatever is missing is missing for that
// reason, and nothing is removed.
func (s *Set) Hold() {
	for f := range s.pending {
		f.goneSince, f.busySince, f.busyWait, f.starvedWait = time.Time{}, time.Time{}, 0, 0
	}
	clear(s.pending)
}

// Unsettled is how many files are to be looked at again, and due when the first of
// them is.
func (s *Set) Unsettled() (n int, due time.Time) {
	for f := range s.pending {
		if due.IsZero() || f.due.Before(due) {
			due = f.due
		}
	}
	return len(s.pending), due
}

// Unread tells whether there are files that could not be read yet, because they are
// being written or because there was no descriptor.
func (s *Set) Unread() bool {
	for f := range s.pending {
		if f.busyWait > 0 || f.starvedWait > 0 {
			return true
		}
	}
	return false
}

// Unusable tells whether the path is a single file that gives no pod and gave none.
func (s *Set) Unusable() bool {
	f := s.files[follow.Single]
	return !s.dir && f != nil && f.fault != nil && f.serving == nil
}

// Pods returns the pods of all files, in the order of the files' names.
func (s *Set) Pods() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(s.order))
	for _, name := range s.order {
		if f := s.files[name]; f.serving != nil {
			pods = append(pods, f.serving)
		}
	}
	return pods
}

// add makes an entry of that name.
func (s *Set) add(name string) *file {
	f := &file{name: name, path: follow.Join(s.path, name)}
	f.as = f.path
	if s.as != "" {
		f.as = follow.Join(s.as, filepath.Base(f.path))
	}
	s.files[name] = f
	at, _ := slices.BinarySearch(s.order, name)
	s.order = slices.Insert(s.order, at, name)
	return f
}

func (s *Set) drop(f *file) {
	delete(s.files, f.name)
	delete(s.pending, f)
	if at, found := slices.BinarySearch(s.order, f.name); found {
		s.order = slices.Delete(s.order, at, at+1)
	}
	if s.judge != nil {
		s.judge(f.as, nil)
	}
}
