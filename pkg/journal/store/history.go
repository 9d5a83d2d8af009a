package store

import (
	"errors"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/internal/metric"
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
	// Before is a revision. Parts with no lower one are left out. 0 is none.
	Before int64
	// Newest has the newest part first.
	Newest bool
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
	// Update is the revision of the update; 0 for a gap.
	Update int64
	Op     config.PodOperation
	Source string
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
		for part := range Parts(fsys, dir, opts) {
			for r, err := range part {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// Parts is History in parts: those of a part are in one file. In a part, the oldest record is first.
func Parts(fsys FS, dir string, opts HistoryOptions) iter.Seq[iter.Seq2[Record, error]] {
	return func(yield func(iter.Seq2[Record, error]) bool) {
		h := &historian{fs: fsys, dir: dir, opts: opts, faults: make(map[*segment]error), aside: make(map[uint64]string)}
		if err := h.list(); err != nil {
			yield(func(yield func(Record, error) bool) { yield(Record{}, err) })
			return
		}
		order := slices.All(h.segments)
		if opts.Newest {
			order = slices.Backward(h.segments)
		}
		for i := range order {
			if !h.skip(i) && !yield(func(yield func(Record, error) bool) { h.read(i, yield) }) {
				return
			}
		}
	}
}

// errEnough means that the caller wants no more records.
var errEnough = errors.New("enough")

type historian struct {
	fs   FS
	dir  string
	opts HistoryOptions
	// segments are those that count, the oldest first. Those that can't be read have no header, but a fault.
	segments []*segment
	faults   map[*segment]error
	aside    map[uint64]string
	// begun means that a segment was read, and deleted that one was deleted in the meantime.
	begun, deleted bool
}

// list finds the segments.
func (h *historian) list() error {
	names, err := h.fs.List(h.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		number, away, ok := segmentNumber(name)
		switch {
		case !ok:
		case away:
			h.aside[number] = name
		default:
			s, err := headOf(h.fs, h.dir, number, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errTorn) {
				continue
			}
			if err != nil {
				s = &segment{number: number, name: name} // its header stays nil
				h.faults[s] = err
			}
			h.segments = append(h.segments, s)
		}
	}
	h.segments, _ = chain(h.segments)
	if n := len(h.segments); n > 1 && !h.counts(h.segments[n-1]) {
		h.segments = h.segments[:n-1]
	}
	kept := slices.ContainsFunc(h.segments, func(s *segment) bool {
		return s.header != nil && s.header.Instance == h.opts.Instance && s.header.Base <= h.opts.After
	})
	if h.opts.Instance != "" && !kept {
		return ErrCompacted
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

// next returns the segment after one, or nil.
func (h *historian) next(i int) *segment {
	if i+1 == len(h.segments) {
		return nil
	}
	return h.segments[i+1]
}

// skip reports whether no record of a segment is requested.
func (h *historian) skip(i int) bool {
	if s := h.segments[i]; h.opts.Before > 0 && s.header != nil && s.header.Base+1 >= h.opts.Before {
		return true
	}
	next := h.next(i)
	return next != nil && next.header != nil && (next.header.Latest.Before(h.opts.Since) || next.header.Base <= h.opts.After)
}

// read yields the records of a segment, and a gap if changes are missing after it.
func (h *historian) read(i int, yield func(Record, error) bool) {
	s := h.segments[i]
	p := &part{
		historian: h, segment: s, yield: yield,
		pods: make(map[sourceUID]*journal.Pod), removed: make(map[nameKey]*journal.Pod), added: make(map[nameKey]bool),
	}
	missing, err := p.records(i)
	if err == nil {
		err = p.gap(h.next(i), missing)
	}
	if err != nil && !errors.Is(err, errEnough) {
		yield(Record{}, err)
	}
}

// Status is the status of a log.
type Status struct {
	// Instance is the instance under which sets are shown.
	Instance string
	// Err is nil if sets are stored. Otherwise it is the reason, since Since.
	Err   error
	Since time.Time
	// Segments and Bytes are the number and size of the segments.
	Segments int
	Bytes    int64
}

// Status returns the current status.
func (l *Log) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Instance: l.instance, Since: l.since}
	if l.mode == failed {
		s.Err = l.cause
	}
	s.Bytes, s.Segments = l.bytesLocked(), len(l.segments)
	if l.file != nil {
		s.Segments++
	}
	return s
}

type metrics struct {
	written  prometheus.Counter
	failures prometheus.Counter
}

// newMetrics registers the log's metrics, if there is a registry.
func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	in := metric.In(reg, "store")
	gauge := func(name, help string, read func(Status) float64) {
		in.GaugeFunc(name, help, func() float64 { return read(l.Status()) })
	}
	gauge("healthy", "1 while updates are stored, 0 while the stream goes on from memory.", func(s Status) float64 { return metric.Bool(s.Err == nil) })
	gauge("bytes", "Size of the segments.", func(s Status) float64 { return float64(s.Bytes) })
	gauge("segments", "Number of segments.", func(s Status) float64 { return float64(s.Segments) })
	return &metrics{
		written:  in.Counter("written_bytes_total", "Bytes of updates written."),
		failures: in.Counter("failures_total", "Times that updates could not be stored any more."),
	}
}
