package history

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"
)

// place is a revision of an instance.
type place struct {
	instance string
	revision int64
}

// entry is an update of the log.
type entry struct {
	place

	time   time.Time
	op     string
	source string
	pods   []Pod
}

// first is the revision of the update's first pod, if nothing else took a revision. An
// update without pods has a revision too.
func (e *entry) first() int64 { return e.revision - int64(max(1, len(e.pods))) + 1 }

func (e *entry) String() string { return fmt.Sprint(e.op, " ", e.revision, " ", e.pods) }

func (e *entry) equal(o *entry) bool {
	return e.op == o.op && e.source == o.source && e.time.Equal(o.time) && slices.Equal(e.pods, o.pods)
}

// log is the union of the histories, by instance.
type log struct {
	opts  Options
	lines map[string]*timeline
	// order has the instances, ordered by their revisions.
	order []*timeline

	// complete means that the log has everything from the start of each instance, when
	// there were no pods.
	complete bool
	// sums has the places after each set, by a sum over the pods of each UID.
	seed maphash.Seed
	sums map[uint64][]place
}

// timeline is one instance: its updates, and its state at some revisions.
type timeline struct {
	instance string
	entries  map[int64]*entry
	// states are the complete states of subscribers of everything.
	states map[int64]map[key]Pod
	// points are the revisions of both.
	points []int64
	// bookmarks are the revisions of bookmarks that followed an update.
	bookmarks []int64
}

// newLog joins the updates of the subscribers that select everything. If two got
// different updates with one revision, the promise Atomic is broken.
func newLog(histories []*History, opts Options, r *Report) *log {
	l := &log{opts: opts, lines: make(map[string]*timeline)}
	for _, h := range histories {
		for _, c := range h.Connections {
			r.Messages += len(c.Messages)
		}
		if h.takesAll() {
			l.take(h, r)
		}
	}
	for _, line := range l.lines {
		line.announced()
		for revision := range line.entries {
			line.points = append(line.points, revision)
		}
		for revision := range line.states {
			line.points = append(line.points, revision)
		}
		slices.Sort(line.points)
		line.points = slices.Compact(line.points)
		r.Updates += len(line.entries)
		if len(line.points) > 0 {
			l.order = append(l.order, line)
		}
	}
	slices.SortFunc(l.order, func(a, b *timeline) int { return cmp.Compare(a.points[0], b.points[0]) })
	l.index(r)
	return l
}

// announced adds the bookmarks that are updates of the sources: each follows an update, and has the
// next revision.
func (line *timeline) announced() {
	for _, revision := range line.bookmarks {
		if line.entries[revision] == nil && line.entries[revision-1] != nil {
			line.entries[revision] = &entry{place: place{line.instance, revision}, op: Bookmark}
		}
	}
}

// index computes complete and sums.
func (l *log) index(r *Report) {
	l.seed, l.sums, l.complete = maphash.MakeSeed(), make(map[uint64][]place), len(l.order) > 0
	for _, line := range l.order {
		w := l.walkOf(line)
		for i := range line.points {
			same := w.same()
			if _, follows := w.step(); i > 0 && !follows || i == 0 && len(w.state) > 0 {
				l.complete = false
			} else if opts := l.opts; opts.Durable && follows && len(same) > 0 {
				(&cursor{report: r, history: new(History)}).violated(Unique, "update %d changes nothing of %v", w.revision, same)
			}
			if w.last() {
				sum := l.sum(byUID(w.state))
				l.sums[sum] = append(l.sums[sum], place{line.instance, w.revision})
			}
		}
	}
}

func (l *log) sum(pods map[string]Pod) (sum uint64) {
	for _, p := range pods {
		sum += maphash.Comparable(l.seed, p)
	}
	return sum
}

// having returns walkers for the places after a set at which the pods are these, by UID.
func (l *log) having(pods map[string]Pod) (walkers []*walker) {
	for _, at := range l.sums[l.sum(pods)] {
		w := l.walk(at.instance)
		for w.revision < at.revision {
			w.step()
		}
		walkers = append(walkers, w)
	}
	return walkers
}

func (l *log) line(instance string) *timeline {
	line := l.lines[instance]
	if line == nil {
		line = &timeline{instance: instance, entries: make(map[int64]*entry), states: make(map[int64]map[key]Pod)}
		l.lines[instance] = line
	}
	return line
}

// take adds the updates of a subscriber.
func (l *log) take(h *History, r *Report) {
	c := cursor{report: r, history: h}
	for c.connection = range h.Connections {
		var pieces []*Message
		var opening map[key]Pod
		if h.Connections[c.connection].Since == 0 {
			opening = make(map[key]Pod)
		}
		for i, m := range h.Connections[c.connection].Messages {
			c.message = i
			switch {
			case m.Reset:
				opening, pieces = make(map[key]Pod), nil
			case m.Op == Bookmark:
				if m.Synced && opening != nil && m.Revision != 0 {
					l.state(m, opening)
				} else if !m.Synced {
					line := l.line(m.Instance)
					line.bookmarks = append(line.bookmarks, m.Revision)
				}
				opening, pieces = nil, nil
			case opening != nil:
				apply(opening, m.Op, m.Pods)
			default:
				if pieces = append(pieces, m); !m.Continues {
					l.entry(c, entryOf(pieces))
					pieces = nil
				}
			}
		}
	}
}

// entryOf joins the pieces of an update.
func entryOf(pieces []*Message) *entry {
	m := pieces[len(pieces)-1]
	e := &entry{place: place{m.Instance, m.Revision}, time: m.Time, op: m.Op, source: m.Source}
	for _, piece := range pieces {
		e.pods = append(e.pods, piece.Pods...)
	}
	return e
}

func (l *log) entry(c cursor, e *entry) {
	if e.revision == 0 {
		return // judged together with the history
	}
	line := l.line(e.instance)
	if other := line.entries[e.revision]; other == nil {
		line.entries[e.revision] = e
	} else if !other.equal(e) {
		c.violated(Atomic, "update %d is %s %v; another subscriber was given %s %v", e.revision, e.op, e.pods, other.op, other.pods)
	}
}

// state adds the current pods of a revision. If two subscribers got different ones, the
// comparison with the updates shows which of them is wrong.
func (l *log) state(m *Message, pods map[key]Pod) {
	line := l.line(m.Instance)
	if line.states[m.Revision] == nil {
		line.states[m.Revision] = pods
	}
}

// apply applies an update to a state, as described in docs/how-to/write-a-client.md.
func apply(state map[key]Pod, op string, pods []Pod) {
	for _, p := range pods {
		if op == Remove {
			delete(state, p.key())
		} else {
			state[p.key()] = p
		}
	}
}

// lineOf returns the instance of a revision; nil if the log does not have it.
func (l *log) lineOf(revision int64) *timeline {
	for _, line := range l.order {
		if line.points[0] <= revision && revision <= line.points[len(line.points)-1] {
			return line
		}
	}
	return nil
}
