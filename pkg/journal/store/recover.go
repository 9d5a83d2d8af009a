package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Recovered is the start of a journal.
type Recovered struct {
	journal.Recovered

	// Reason is why the instance is new; empty if it is that of the last process.
	Reason string
	// Note is the last note that was stored; empty for none.
	Note string
	// Problems are for the log of the daemon.
	Problems []Problem
}

// Problem is a problem that was found at a start.
type Problem struct {
	// File is the name of the file, and Aside its new name if it was set aside.
	File, Aside string
	Err         error
}

// bootID returns the kernel's boot ID, or an empty string.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without one, each start counts as a start after a boot
	return strings.TrimSpace(string(id))
}

func newInstance() string { return string(uuid.NewUUID()) }

// recovery reads a directory at a start.
type recovery struct {
	fs                FS
	dir, node, bootID string
	replayBytes       int64
	now               time.Time

	// segments are the segments that count, the oldest first. leftovers have no complete snapshot,
	// or were never used. unread can't be read now, and maybe later.
	segments  []*segment
	leftovers []*segment
	unread    []*segment
	problems  []Problem
	// distrust is a reason why the instance can't continue, whatever the last segment
	// contains.
	distrust string

	// ceiling, note and latest are those of the log.
	ceiling int64
	note    string
	latest  time.Time
	base    *journal.Table
	sets    []*journal.Set
	// end is the tail of the last segment.
	end tail
}

// run reads the directory. Its error is that of listing it.
func (r *recovery) run() error {
	names, err := r.fs.List(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing the state directory: %w", err)
	}
	for _, name := range names {
		if number, aside, ok := segmentNumber(name); ok && !aside {
			r.find(number, name)
		}
	}
	if len(r.segments) == 0 {
		r.takeBack(names)
	}
	var between []*segment
	r.segments, between = chain(r.segments)
	r.leftovers = append(r.leftovers, between...)
	for len(r.segments) > 0 {
		bad, err := r.load()
		if bad == nil {
			break
		}
		r.reject(bad, err)
	}
	if len(r.segments) == 0 {
		r.base, r.sets, r.latest, r.end = nil, nil, time.Time{}, tail{}
	}
	return nil
}

// keep records a segment of this node.
func (r *recovery) keep(s *segment) {
	r.ceiling = max(r.ceiling, s.header.Ceiling)
	r.note = cmp.Or(s.header.Note, r.note)
	r.segments = append(r.segments, s)
}

// chain sorts segments, and separates the segments that don't count. A segment between another
// segment and its predecessor was never used.
func chain(segments []*segment) (counting, between []*segment) {
	slices.SortFunc(segments, func(a, b *segment) int { return cmp.Compare(b.number, a.number) })
	for i, s := range segments {
		if i > 0 && counting[len(counting)-1].header != nil {
			before := counting[len(counting)-1].header.Predecessor
			if s.number > before && slices.ContainsFunc(segments[i:], func(s *segment) bool { return s.number == before }) {
				between = append(between, s)
				continue
			}
		}
		counting = append(counting, s)
	}
	slices.Reverse(counting)
	return counting, between
}

// find records a segment.
func (r *recovery) find(number uint64, name string) {
	s, err := headOf(r.fs, r.dir, number, name)
	if err == nil && s.header.Node != r.node {
		err = fmt.Errorf("%w: %s", errNode, s.header.Node)
	}
	if err != nil {
		r.reject(&segment{number: number, name: name}, err)
		return
	}
	r.keep(s)
}

// load reads the last segment. If its instance goes on, load also reads those before it, as far as the ring may go back. If
// a segment can't be used, it returns the segment and the error.
func (r *recovery) load() (*segment, error) {
	var next *segment
	total := int64(0)
	r.sets, r.latest = nil, time.Time{}
	for _, s := range slices.Backward(r.segments) {
		total += s.size
		if next != nil && (r.fresh() != "" || !next.follows(s) || s.header.Instance != next.header.Instance || total > r.replayBytes) {
			break
		}
		sets, end, err := r.read(s, next)
		if err != nil {
			return s, err
		}
		if next == nil {
			r.end, r.note = end, cmp.Or(end.note, s.header.Note, r.note)
		} else if end.revision != next.header.Base {
			break // the ring starts after the gap
		}
		r.sets, next = append(sets, r.sets...), s
	}
	snapshot, err := r.snapshot(next)
	if err != nil {
		return next, err
	}
	r.base = tableOf(snapshot, next.header.Base)
	return nil, nil
}

// read reads the sets of a segment, up to what the next one says.
func (r *recovery) read(s, next *segment) (sets []*journal.Set, end tail, err error) {
	_, file, err := openSegment(r.fs, r.dir, s.number, s.name)
	if err != nil {
		return nil, tail{}, err
	}
	defer file.file.Close()
	if _, err := file.snapshot(false); err != nil {
		return nil, tail{}, err
	}
	until := int64(math.MaxInt64)
	if next != nil {
		until = next.header.PredecessorSize
	}
	r.seen(s.header.Latest)
	end = file.sets(s, until, func(set *journal.Set) error {
		r.seen(set.Time)
		sets = append(sets, set)
		return nil
	})
	r.ceiling = max(r.ceiling, end.ceiling)
	s.verified = true
	if next == nil { // everything after its last complete set is cut
		if n := len(r.segments); !end.counts && n > 1 && s.follows(r.segments[n-2]) {
			return nil, end, cmp.Or(end.err, errTorn) // the previous segment was still being written
		}
		return sets, end, nil
	}
	if end.good < until && (end.err == nil || errors.Is(end.err, errTorn)) {
		return nil, end, fmt.Errorf("%w: it has %d bytes, and had %d", errDamaged, s.size, until)
	}
	return sets, end, end.err
}

// snapshot reads the snapshot of a segment.
func (r *recovery) snapshot(s *segment) (*journal.Set, error) {
	_, file, err := openSegment(r.fs, r.dir, s.number, s.name)
	if err != nil {
		return nil, err
	}
	defer file.file.Close()
	return file.snapshot(true)
}

// seen records the time of a set.
func (r *recovery) seen(t time.Time) {
	if t.After(r.latest) {
		r.latest = t
	}
}

// tableOf returns the table of a snapshot.
func tableOf(snapshot *journal.Set, base int64) *journal.Table {
	byName, sources := renumbered(snapshot), make(map[string]journal.Source)
	for _, source := range snapshot.Sources {
		sources[source.Name] = source
	}
	return journal.NewTable(base, func(yield func(*journal.Pod, int64) bool) {
		for _, p := range snapshot.Updates[0].Pods {
			yield(p, byName[keyOf(p)])
		}
	}, sources)
}

// NoJournal is the reason of a start with an empty directory, at which nothing is lost.
const NoJournal = "there is no journal yet"

// fresh returns why the instance can't continue; empty if it can.
func (r *recovery) fresh() string {
	if r.distrust != "" {
		return r.distrust
	}
	if len(r.segments) == 0 {
		return NoJournal
	}
	last := r.segments[len(r.segments)-1]
	booted := r.bootID == "" || last.header.BootID != r.bootID
	switch {
	case r.end.err != nil && !errors.Is(r.end.err, errTorn):
		return fmt.Sprintf("%s: %v", last.name, r.end.err)
	case booted && !r.end.stopped:
		return "the machine was booted, and podconfigd had not stopped cleanly before"
	case booted && r.end.err != nil:
		return fmt.Sprintf("%s: %v", last.name, r.end.err)
	}
	return ""
}

// fastest is more than the revisions that a process can show in a millisecond, on average.
// With it, revisions stay below 2^53, which JSON can represent, for thousands of years.
const fastest = 64

// longest limits the time since the last segment. If more seems to have passed, the clock was set.
// No process shows updates at the highest rate for so long.
const longest = 30 * 24 * time.Hour

// reserved returns a revision that no shown revision exceeds. The log does not know revisions that
// were shown and not stored. A process that could store nothing may have shown them since the last
// segment was begun, as fast as it can.
func (r *recovery) reserved() int64 {
	reserved := max(r.ceiling, r.end.revision)
	if n := len(r.segments); n > 0 {
		reserved += fastest * min(max(0, r.now.Sub(r.segments[n-1].header.Created)), longest).Milliseconds()
	}
	return reserved
}

// result returns the result for the journal.
func (r *recovery) result() *Recovered {
	result := &Recovered{Reason: r.fresh(), Note: r.note, Problems: r.problems}
	if n := len(r.segments); n > 0 && r.end.err != nil {
		result.Problems = append(result.Problems, Problem{File: r.segments[n-1].name,
			Err: fmt.Errorf("cut at byte %d of %d: %w", r.end.good, r.segments[n-1].size, r.end.err)})
	}
	result.Base, result.Sets = r.base, r.sets
	if r.base == nil {
		result.Base = tableOf(&journal.Set{Updates: []*journal.Update{{}}}, 0)
	}
	if result.Reason == "" {
		result.Instance, result.Resumed = r.segments[len(r.segments)-1].header.Instance, true
		result.Revision, result.Reserved = r.end.revision, r.reserved()
	} else {
		result.Instance = newInstance()
		result.Revision = max(r.now.UnixMilli(), r.reserved()+1)
		result.Reserved = result.Revision
	}
	return result
}
