package store

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// HistoryOptions select records.
type HistoryOptions struct {
	// Since is the time of the first record; zero for all.
	Since time.Time
	// After is a revision. Only later records are read.
	After int64
	// Instance is the instance of After, or empty. If it is set, the result is ErrCompacted
	// if records after After were deleted.
	Instance string
}

// ErrCompacted means that the records after a revision were deleted, because they were too
// old or too large.
var ErrCompacted = errors.New("the changes after this revision are no longer stored")

// Record is one change of one pod. If Gap is set, changes are missing here instead. Within
// all records, revisions grow. A gap at the end has the revision of the last record.
type Record struct {
	Time     time.Time
	Instance string
	Revision int64
	Op       config.PodOperation
	Source   string
	// Pod is the new version. In a REMOVE, it is the removed version. It is nil for an update
	// without pods.
	Pod *journal.Pod
	// Before is the version before. In an ADD, it is the pod of the same name that the same
	// set removed: an edited static pod has another UID. It is nil if there was none.
	Before *journal.Pod
	// Replaced is true in a REMOVE if the same set adds a pod of the same name.
	Replaced bool
	// Gap is the reason why changes are missing before the next record, or after the last.
	Gap string
}

// History reads the segments of a directory, the oldest first. It takes no lock and
// changes nothing, so it works with or without a running daemon. An error of a record
// ends the sequence. An empty directory has no records.
func History(fsys FS, dir string, opts HistoryOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h := &historian{fs: fsys, dir: dir, opts: opts, yield: yield, pods: make(map[podKey]*journal.Pod), removed: make(map[nameKey]*journal.Pod), added: make(map[nameKey]bool)}
		if err := h.run(); err != nil && !errors.Is(err, errEnough) {
			yield(Record{}, err)
		}
	}
}

// errEnough means that the caller wants no more records.
var errEnough = errors.New("enough")

type nameKey struct{ source, namespace, name string }

type historian struct {
	fs    FS
	dir   string
	opts  HistoryOptions
	yield func(Record, error) bool
	// pods are the current ones, at a revision.
	pods     map[podKey]*journal.Pod
	revision int64
	latest   time.Time // of all sets
	// removed are the pods that the current set has removed. added are the names that it
	// adds.
	removed map[nameKey]*journal.Pod
	added   map[nameKey]bool
	// last is the previous segment.
	last *segment
	// broken is the reason why the previous segment was not read to its end.
	broken string
}

func (h *historian) run() error {
	names, err := h.fs.List(h.dir)
	if err != nil {
		return err
	}
	var segments []*segment
	aside, unreadable := make(map[uint64]string), make(map[*segment]error)
	for _, name := range names {
		number, away, ok := segmentNumber(name)
		switch {
		case !ok:
		case away:
			aside[number] = name
		default:
			s, file, err := openSegment(h.fs, h.dir, number, name)
			switch {
			case err == nil:
				_ = file.file.Close() // it was only read
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, errTorn):
				continue
			default:
				s = &segment{number: number, name: name} // its header stays nil
				unreadable[s] = err
			}
			segments = append(segments, s)
		}
	}
	segments, _ = chain(segments)
	if n := len(segments); n > 1 && !h.counts(segments[n-1]) {
		segments = segments[:n-1]
	}
	if !h.kept(segments) {
		return ErrCompacted
	}
	for i, s := range segments {
		if s.header == nil {
			h.broken = cmp.Or(h.broken, s.name+": "+unreadable[s].Error())
			continue
		}
		if h.skip(segments[i+1:]) {
			continue
		}
		until := int64(math.MaxInt64)
		for _, after := range segments[i+1:] {
			if after.header != nil && after.header.Predecessor == s.number {
				until = after.header.PredecessorSize
			}
		}
		if err := h.read(s, until, aside); err != nil {
			return err
		}
	}
	return h.end()
}

// end yields a gap if the last segment was not read to its end.
func (h *historian) end() error {
	if h.broken == "" {
		return nil
	}
	r := Record{Time: h.latest, Revision: h.revision, Gap: h.broken}
	if h.last != nil {
		r.Instance = h.last.header.Instance
	}
	if !h.yield(r, nil) {
		return errEnough
	}
	return nil
}

// counts reports whether a segment has all sets of its predecessor. Otherwise a daemon is beginning it, or could not.
func (h *historian) counts(s *segment) bool {
	if s.header == nil {
		return true
	}
	_, file, err := openSegment(h.fs, h.dir, s.number, s.name)
	if err != nil {
		return false
	}
	defer file.file.Close()
	last := kindState
	if s.header.Rolled {
		last = kindTakeover
	}
	for {
		k, _, err := file.next()
		if err != nil || k == last {
			return err == nil || errors.Is(err, errDamaged) // damage is reported later
		}
	}
}

// kept reports whether the records after h.opts.After are still there.
func (h *historian) kept(segments []*segment) bool {
	return h.opts.Instance == "" || slices.ContainsFunc(segments, func(s *segment) bool {
		return s.header != nil && s.header.Instance == h.opts.Instance && s.header.Base <= h.opts.After
	})
}

// skip reports whether all records of a segment are before the requested ones.
func (h *historian) skip(later []*segment) bool {
	if len(later) == 0 || later[0].header == nil {
		return false
	}
	next := later[0].header
	return next.Latest.Before(h.opts.Since) || next.Base <= h.opts.After
}

// read reads a segment.
func (h *historian) read(s *segment, until int64, aside map[uint64]string) error {
	_, file, err := openSegment(h.fs, h.dir, s.number, s.name)
	if err != nil {
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			h.broken = s.name + ": " + err.Error()
		case h.opts.Instance != "": // it was deleted in the meantime, because it was too old
			return ErrCompacted
		case h.last != nil: // the one before it was read just in time
			h.broken = "updates were deleted in the meantime, because they are too old or too large"
		}
		return nil
	}
	defer file.file.Close()
	snapshot, err := file.snapshot(true)
	if err != nil {
		if !errors.Is(err, errTorn) { // a daemon is writing it, or ended here
			h.broken = s.name + ": " + err.Error()
		}
		return nil
	}
	if err := h.gap(s, aside); err != nil {
		return err
	}
	clear(h.pods)
	for _, p := range snapshot.Updates[0].Pods {
		h.pods[keyOf(p)] = p
	}
	h.revision = s.header.Base
	end := file.sets(s, until, func(set *journal.Set) error { return h.set(s, set) })
	h.last, h.broken = s, ""
	switch {
	case errors.Is(end.err, errEnough):
		return end.err
	case end.err != nil && !errors.Is(end.err, errTorn):
		h.broken = s.name + ": " + end.err.Error()
	}
	return nil
}

// gap yields a gap if changes are missing before a segment.
func (h *historian) gap(s *segment, aside map[uint64]string) error {
	reason, away := h.broken, aside[s.header.Predecessor]
	if s.header.Predecessor == 0 { // the first one, or all before it were set aside
		away = aside[s.number-1]
	}
	switch {
	case h.last == nil && reason == "" && away == "":
		return nil // older segments were deleted, or not requested
	case h.last == nil:
	case h.last.header.Instance != s.header.Instance:
		reason = cmp.Or(reason, "a new instance began: updates may be missing")
	case h.revision != s.header.Base:
		reason = cmp.Or(reason, "updates were not stored")
	default:
		return nil
	}
	if away != "" {
		reason = away + " was set aside"
	}
	if s.header.Created.Before(h.opts.Since) || s.header.Base <= h.opts.After {
		return nil
	}
	if !h.yield(Record{Time: s.header.Created, Instance: s.header.Instance, Revision: s.header.Base, Gap: reason}, nil) {
		return errEnough
	}
	return nil
}

// set yields the records of a set.
func (h *historian) set(s *segment, set *journal.Set) error {
	h.names(set)
	for _, u := range set.Updates {
		if len(u.Pods) == 0 {
			if err := h.record(s, set, u, u.Revision, nil); err != nil {
				return err
			}
		}
		for k, p := range u.Pods {
			if err := h.record(s, set, u, u.First+int64(k), p); err != nil {
				return err
			}
			if h.pods[keyOf(p)] = p; u.Op == config.REMOVE {
				delete(h.pods, keyOf(p))
			}
		}
	}
	if h.revision = set.Revision; set.Time.After(h.latest) {
		h.latest = set.Time
	}
	return nil
}

// names finds the names that a set adds.
func (h *historian) names(set *journal.Set) {
	clear(h.removed)
	clear(h.added)
	for i, u := range set.Updates {
		if i == 0 || u.Op != config.ADD {
			continue // nothing was removed before
		}
		for _, p := range u.Pods {
			h.added[nameKey{u.Source, p.Object.Namespace, p.Object.Name}] = true
		}
	}
}

func (h *historian) record(s *segment, set *journal.Set, u *journal.Update, revision int64, p *journal.Pod) error {
	r := Record{Time: set.Time, Instance: s.header.Instance, Revision: revision, Op: u.Op, Source: u.Source, Pod: p}
	if p != nil {
		name := nameKey{u.Source, p.Object.Namespace, p.Object.Name}
		r.Before = h.pods[keyOf(p)]
		switch {
		case u.Op == config.REMOVE && r.Before != nil:
			r.Pod = r.Before
			r.Replaced = h.added[name]
			h.removed[name] = r.Before
		case u.Op == config.ADD && r.Before == nil:
			r.Before = h.removed[name]
		}
	}
	if set.Time.Before(h.opts.Since) || revision <= h.opts.After {
		return nil
	}
	if !h.yield(r, nil) {
		return errEnough
	}
	return nil
}
