package history

import (
	"maps"
	"time"
)

// walker moves along a timeline.
type walker struct {
	log  *log
	line *timeline
	// next is the next point. state is the one at the revision, if known is set.
	next     int
	revision int64
	state    map[key]Pod
	known    bool
	// set is the time of the newest update, and pods counts the pods of its set so far.
	set  time.Time
	pods int
	// source is the source of the newest update. firsts has the time of the first set of each
	// source after a restart.
	source string
	firsts map[string]time.Time
}

func (l *log) walk(instance string) *walker { return l.walkOf(l.line(instance)) }

func (l *log) walkOf(line *timeline) *walker {
	return &walker{log: l, line: line, state: make(map[key]Pod), firsts: make(map[string]time.Time)}
}

// peek returns the revision of the next point.
func (w *walker) peek() (revision int64, more bool) {
	if w.next == len(w.line.points) {
		return 0, false
	}
	return w.line.points[w.next], true
}

// step moves to the next point. It returns the update there, which is nil if there is
// only a state, and whether it follows the known state.
func (w *walker) step() (e *entry, follows bool) {
	revision := w.line.points[w.next]
	w.next++
	if e = w.line.entries[revision]; e != nil {
		gap := e.first() - w.revision - 1
		unsent := w.unsent(e)
		w.began(e, gap)
		w.pods += len(e.pods)
		started := w.log.opts.Durable && (gap > restart || gap > 0 && w.next == 2)
		w.known = w.known && (gap >= 0 && gap <= w.unseen()+unsent || started)
		apply(w.state, e.op, e.pods)
	} else if w.known && revision != w.revision { // no subscriber has the updates between
		w.known = false
	}
	w.revision, follows = revision, w.known
	if state := w.line.states[revision]; state != nil && !w.known {
		w.state, w.known = maps.Clone(state), true
	}
	return e, follows
}

// began notes the start of a set and of a daemon.
func (w *walker) began(e *entry, gap int64) {
	if gap > restart {
		clear(w.firsts)
	}
	if !e.time.Equal(w.set) {
		w.set, w.pods = e.time, 0
	}
	if _, there := w.firsts[e.source]; !there && e.op != Bookmark {
		w.firsts[e.source] = e.time
	}
	w.source = e.source
}

// unsent is 1 if the daemon may have ended before it sent the bookmark before the update. The next
// one does not send it. There is a bookmark behind the first set of each source.
func (w *walker) unsent(e *entry) int64 {
	if first, there := w.firsts[w.source]; w.log.opts.Durable && there && first.Equal(w.set) && !e.time.Equal(w.set) {
		return 1
	}
	return 0
}

// onlyNode reports whether the node alone may have taken the revisions up to that one.
func (w *walker) onlyNode(revision int64) bool {
	gap := revision - w.revision
	return w.log.opts.Node && (gap == 1 || w.log.opts.Durable && gap > restart)
}

// unseen is the greatest number of revisions before an update that its subscribers do not get.
func (w *walker) unseen() (most int64) {
	if w.log.opts.Clashes {
		most = int64(w.pods)
	}
	if w.log.opts.Node {
		most++
	}
	return most
}

// same returns the pods of the next update that the state has already.
func (w *walker) same() (pods []Pod) {
	e := w.line.entries[w.line.points[w.next]]
	if e == nil || e.op == Remove || e.op == Delete {
		return nil
	}
	for _, p := range e.pods {
		if w.state[p.key()] == p {
			pods = append(pods, p)
		}
	}
	return pods
}

// last reports whether the newest update is the last of its set. Within a set, the daemon
// never had the state.
func (w *walker) last() bool {
	if w.next == len(w.line.points) {
		return true
	}
	e := w.line.entries[w.line.points[w.next]]
	return e == nil || !e.time.Equal(w.set)
}
