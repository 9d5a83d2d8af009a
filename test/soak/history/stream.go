package history

import (
	"cmp"
	"fmt"
	"slices"
)

// streamCheck judges a subscriber of the stream.
type streamCheck struct {
	cursor

	// saved is the place that the subscriber saves: instance and revision of the newest
	// message with a revision. at is the same, but empty after a reset until the current
	// pods are complete. bookmarked is the newest revision of a bookmark.
	saved, at  place
	bookmarked int64
	seen       map[place]bool
	// held is the subscriber's state.
	held   map[key]Pod
	walker *walker

	// opening means that the current pods are being sent. before is the place before a
	// reset.
	opening bool
	before  place
	// pieces are the pieces of an update that continues.
	pieces []*Message
}

func (c *streamCheck) run() {
	c.held = make(map[key]Pod)
	for i, connection := range c.history.Connections {
		c.connection, c.message = i, -1
		c.connect(connection)
		for k, m := range connection.Messages {
			c.message = k
			c.take(m)
		}
	}
}

// connect starts a connection.
func (c *streamCheck) connect(connection *Connection) {
	c.pieces, c.before = nil, place{}
	if c.opening = connection.Since == 0; c.opening {
		c.held = make(map[key]Pod)
		c.at = place{}
		return
	}
	c.report.Resumes++
	c.at = place{connection.Instance, connection.Since}
	if c.at != c.saved {
		c.violated(Resumable, "the subscriber resumes from %v, though it saved %v", c.at, c.saved)
	}
}

func (c *streamCheck) take(m *Message) {
	if m.Revision != 0 && (m.Continues || m.Reset || c.opening && !m.Synced) {
		c.violated(Resumable, "%v has a revision, but can't be resumed from", m)
	}
	begins := m.Reset || c.opening && c.at == place{}
	if m.Instance != c.at.instance && !begins {
		c.violated(Resumable, "%v is of instance %s, without a reset from %s", m, m.Instance, c.at.instance)
	}
	switch {
	case m.Reset:
		c.reset(c.at.revision)
		c.before, c.opening, c.pieces = c.at, true, nil
		c.at, c.held = place{instance: m.Instance}, make(map[key]Pod)
	case m.Op == Bookmark:
		c.bookmark(m)
	case c.opening:
		c.at.instance = m.Instance
		c.present(m)
	default:
		c.piece(m)
	}
}

// present handles a piece of the current pods.
func (c *streamCheck) present(m *Message) {
	if m.Op != Add {
		c.violated(Bookmarkable, "%v comes before the bookmark after the present pods", m)
	}
	for _, p := range m.Pods {
		if _, twice := c.held[p.key()]; twice {
			c.violated(Unique, "%v is twice among the present pods", p)
		}
	}
	apply(c.held, m.Op, m.Pods)
}

// bookmark handles a bookmark: everything up to it must have come.
func (c *streamCheck) bookmark(m *Message) {
	c.report.Bookmarks++
	if len(c.pieces) > 0 {
		c.violated(Atomic, "%v comes within %v", m, c.pieces[0])
		c.pieces = nil
		return
	}
	switch {
	case m.Revision == 0:
		c.violated(Bookmarkable, "%v has no revision", m)
		return
	case m.Synced != c.opening:
		c.violated(Bookmarkable, "%v, though the present pods are being sent: %t", m, c.opening)
	case m.Revision < max(c.at.revision, c.sameInstance(m)):
		c.violated(Ordered, "%v comes after revision %d", m, max(c.at.revision, c.before.revision))
		return
	}
	if c.opening {
		c.opened(m)
	}
	for _, e := range c.missed(m.Revision + 1) {
		if e.revision < m.Revision || e.op != Bookmark {
			c.violated(Bookmarkable, "%v comes before %v", m, e)
		}
	}
	c.at, c.bookmarked = place{m.Instance, m.Revision}, m.Revision
	c.saved = c.at
	c.compare(m)
}

// sameInstance returns the revision before a reset, if the instance is the same.
func (c *streamCheck) sameInstance(m *Message) int64 {
	if c.before.instance == m.Instance {
		return c.before.revision
	}
	return 0
}

// opened handles the end of the current pods. It judges the reason of the reset before
// them.
func (c *streamCheck) opened(m *Message) {
	before := c.before
	c.opening, c.before = false, place{}
	same := before.instance == m.Instance && before.revision != 0
	if c.walker == nil || c.walker.line.instance != m.Instance {
		c.walker = c.log.walk(m.Instance)
	}
	updates, known := 0, same && c.walker.known
	for revision, more := c.walker.peek(); more && revision <= m.Revision; revision, more = c.walker.peek() {
		e, follows := c.walker.step()
		known = known && follows
		if e != nil {
			updates++
		}
	}
	if known && updates+updatesOfASet < c.log.opts.MaxUpdates {
		c.violated(Reliable, "a reset at revision %d, though only %d updates came after it", before.revision, updates)
	}
}

// piece handles a piece of an update.
func (c *streamCheck) piece(m *Message) {
	if n := len(c.pieces); n > 0 && (!c.pieces[n-1].Time.Equal(m.Time) || c.pieces[n-1].Source != m.Source) {
		c.violated(Atomic, "%v comes within %v", m, c.pieces[n-1])
		c.pieces = nil
	}
	apply(c.held, m.Op, m.Pods)
	if c.pieces = append(c.pieces, m); m.Continues {
		return
	}
	pieces := c.pieces
	c.pieces = nil
	c.update(pieces, m)
}

// update handles an update, whose last piece is m.
func (c *streamCheck) update(pieces []*Message, m *Message) {
	at := place{m.Instance, m.Revision}
	switch {
	case m.Revision == 0:
		c.violated(Resumable, "%v has no revision", m)
		return
	case c.seen[at]:
		c.violated(Unique, "%v comes again", m)
		return
	case m.Revision <= c.bookmarked && m.Instance == c.at.instance && c.bookmarked == c.at.revision:
		c.violated(Bookmarkable, "%v comes after the bookmark of %d", m, c.bookmarked)
		return
	case m.Revision <= c.at.revision:
		c.violated(Ordered, "%v comes after revision %d", m, c.at.revision)
		return
	}
	c.seen[at] = true
	promise := Reliable
	if c.firstSince(at) {
		promise = Resumable
	}
	for _, e := range c.missed(m.Revision) {
		c.violated(promise, "between %d and %v, %v is missing", c.at.revision, m, e)
	}
	c.at, c.saved = at, at
	c.same(pieces)
}

// firstSince reports whether this is the first update of the connection.
func (c *streamCheck) firstSince(at place) bool {
	connection := c.history.Connections[c.connection]
	return connection.Since == c.at.revision && connection.Instance == at.instance
}

// missed returns the updates of the log before a revision that should have been sent to
// the subscriber.
func (c *streamCheck) missed(before int64) (missed []*entry) {
	if c.walker == nil {
		return nil
	}
	for revision, more := c.walker.peek(); more && revision < before; revision, more = c.walker.peek() {
		was := c.wasOf(c.walker.line.entries[revision])
		e, follows := c.walker.step()
		switch {
		case e == nil || e.revision <= c.at.revision || !follows && !c.history.takesAll():
		case e.op == Bookmark && !c.log.opts.Durable && !c.log.opts.Node:
			// After a restart, it would be about the time before. Of the node, it can be progress.
			missed = append(missed, e)
		case len(e.pods) > 0 && len(c.expected(e, was)) > 0:
			missed = append(missed, e)
		}
	}
	return missed
}

// wasOf returns the earlier versions of the update's pods.
func (c *streamCheck) wasOf(e *entry) map[key]Pod {
	was := make(map[key]Pod)
	if e != nil {
		for _, p := range e.pods {
			if before, there := c.walker.state[p.key()]; there {
				was[p.key()] = before
			}
		}
	}
	return was
}

// same compares an update with the log's.
func (c *streamCheck) same(pieces []*Message) {
	m := pieces[len(pieces)-1]
	revision, more := c.walker.peek()
	e := c.walker.line.entries[m.Revision]
	if !more || revision != m.Revision || e == nil {
		c.report.Unknown++
		return
	}
	before, known, was := c.walker.revision, c.walker.known, c.wasOf(e)
	_, follows := c.walker.step()
	switch {
	case !known || follows || !c.history.takesAll():
	case e.first() <= before:
		c.violated(Atomic, "%v has more pods than revisions after %d", m, before)
	default:
		c.violated(Reliable, "%v does not follow %d, though nobody was sent anything between them", m, before)
	}
	if !follows && !c.history.takesAll() {
		c.report.Unknown++
		return
	}
	c.report.Compared++
	var got []string
	for _, piece := range pieces {
		for _, p := range piece.Pods {
			got = append(got, fmt.Sprint(piece.Op, " ", p))
		}
	}
	want := c.expected(e, was)
	if slices.Sort(got); !slices.Equal(got, want) {
		c.violated(Atomic, "update %d brings %v, want %v", m.Revision, got, want)
	}
}

// expected returns the update for the selection and operations of the subscriber: a pod
// that starts to match is an ADD, one that no longer matches is a REMOVE.
func (c *streamCheck) expected(e *entry, was map[key]Pod) []string {
	var want []string
	put := func(op string, p Pod) {
		if c.history.wants(op) {
			want = append(want, fmt.Sprint(op, " ", p))
		}
	}
	for _, p := range e.pods {
		before, there := was[p.key()]
		selects := c.history.Selection.Matches
		is, was := e.op != Remove && selects(p), there && selects(before)
		switch {
		case c.history.Selection == Selection{}, is && was:
			put(e.op, p)
		case is:
			put(Add, p)
		case was:
			put(Remove, before)
		}
	}
	slices.SortFunc(want, cmp.Compare[string])
	return want
}

// compare compares the subscriber's state with the log at a bookmark.
func (c *streamCheck) compare(m *Message) {
	switch {
	case c.walker == nil || !c.walker.known || c.walker.revision != m.Revision && !c.walker.onlyNode(m.Revision):
		c.report.Unknown++
		if c.walker != nil && c.walker.known && c.history.takesAll() {
			c.violated(Bookmarkable, "%v comes after %d, and nothing between them", m, c.walker.revision)
		}
	case c.history.Ops == nil:
		c.report.Compared++
		if diff := difference(c.held, selected(c.walker.state, c.history.Selection)); diff != "" {
			c.violated(Bookmarkable, "at %v the subscriber holds %s", m, diff)
		}
	}
}
