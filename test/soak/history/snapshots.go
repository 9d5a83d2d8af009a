package history

// snapshotsCheck judges a subscriber of the stream in the mode snapshot. It gets all pods
// after each set that changes more than the status of a pod.
type snapshotsCheck struct {
	cursor

	// saved and at are as in streamCheck.
	saved, at place
	held      map[key]Pod
	walker    *walker
	opening   bool
	// begun means that a SET continues.
	begun bool
}

func (c *snapshotsCheck) run() {
	for i, connection := range c.history.Connections {
		c.connection, c.message = i, -1
		c.begun, c.opening = false, connection.Since == 0
		c.at = place{connection.Instance, connection.Since}
		switch {
		case c.opening:
			c.held = make(map[key]Pod)
		case c.at != c.saved:
			c.violated(Resumable, "the subscriber resumes from %v, though it saved %v", c.at, c.saved)
			fallthrough
		default:
			c.report.Resumes++
		}
		for k, m := range connection.Messages {
			c.message = k
			c.take(m)
		}
	}
}

func (c *snapshotsCheck) take(m *Message) {
	if m.Revision != 0 && (m.Continues || m.Reset || c.opening && !m.Synced) {
		c.violated(Resumable, "%v has a revision, but can't be resumed from", m)
	}
	if m.Instance != c.at.instance && !m.Reset && !c.opening {
		c.violated(Resumable, "%v is of instance %s, without a reset from %s", m, m.Instance, c.at.instance)
	}
	switch {
	case m.Reset:
		c.reset(c.at.revision)
		c.opening, c.begun, c.at, c.held = true, false, place{}, make(map[key]Pod)
	case m.Op == Bookmark:
		c.bookmark(m)
	case m.Op == Set:
		c.set(m)
	default:
		c.violated(Atomic, "%v is no SET", m)
	}
}

func (c *snapshotsCheck) bookmark(m *Message) {
	c.report.Bookmarks++
	switch {
	case c.begun:
		c.violated(Atomic, "%v comes within a SET", m)
	case m.Revision == 0 || m.Synced != c.opening:
		c.violated(Bookmarkable, "%v, though the present pods are being sent: %t", m, c.opening)
	case m.Revision < c.at.revision:
		c.violated(Ordered, "%v comes after revision %d", m, c.at.revision)
		return
	}
	if c.opening {
		c.walker = c.log.walk(m.Instance)
		for next, more := c.walker.peek(); more && next <= m.Revision; next, more = c.walker.peek() {
			c.walker.step()
		}
		c.opening = false
		c.compare(m, Bookmarkable)
	} else {
		c.upTo(m, m.Revision+1, Bookmarkable)
	}
	c.at = place{m.Instance, m.Revision}
	c.saved = c.at
}

// set handles a piece of a SET.
func (c *snapshotsCheck) set(m *Message) {
	if !c.begun {
		c.held = make(map[key]Pod)
	}
	apply(c.held, m.Op, m.Pods)
	if c.begun = m.Continues; m.Continues || c.opening {
		return
	}
	switch {
	case m.Revision == 0:
		c.violated(Resumable, "%v has no revision", m)
		return
	case m.Revision == c.at.revision:
		c.violated(Unique, "%v comes again", m)
		return
	case m.Revision < c.at.revision:
		c.violated(Ordered, "%v comes after revision %d", m, c.at.revision)
		return
	}
	promise := Reliable
	if connection := c.history.Connections[c.connection]; connection.Since == c.at.revision {
		promise = Resumable
	}
	c.upTo(m, m.Revision, promise)
	if next, more := c.walker.peek(); more && next <= m.Revision {
		c.nextSet()
	}
	c.compare(m, Atomic)
	c.at = place{m.Instance, m.Revision}
	c.saved = c.at
}

// upTo goes through the sets that end before a revision. None of them may concern the
// subscriber.
func (c *snapshotsCheck) upTo(m *Message, before int64, promise Promise) {
	for c.endOfSet() < before {
		if end, concerns := c.nextSet(); concerns {
			c.violated(promise, "between %d and %v, the SET of %d is missing", c.at.revision, m, end)
		}
	}
}

// endOfSet returns the last revision of the next set.
func (c *snapshotsCheck) endOfSet() int64 {
	w := *c.walker
	for w.next < len(w.line.points) {
		w.revision = w.line.points[w.next]
		w.next++
		if e := w.line.entries[w.revision]; e != nil {
			w.set = e.time
		}
		if w.last() {
			return w.revision
		}
	}
	return 1<<63 - 1
}

// nextSet goes through a set, and reports whether it must be sent to the subscriber.
func (c *snapshotsCheck) nextSet() (end int64, concerns bool) {
	for {
		before := make(map[key]Pod)
		next, _ := c.walker.peek()
		if e := c.walker.line.entries[next]; e != nil {
			for _, p := range e.pods {
				before[p.key()] = c.walker.state[p.key()]
			}
		}
		e, follows := c.walker.step()
		if e != nil && follows && e.op != Reconcile && e.revision > c.at.revision {
			for _, p := range e.pods {
				was, selects := before[p.key()], c.history.Selection.Matches
				concerns = concerns || selects(p) || was.UID != "" && selects(was)
			}
		}
		if c.walker.last() {
			return c.walker.revision, concerns
		}
	}
}

// compare compares the pods of a SET, or the subscriber's at a bookmark, with the state
// of the log.
func (c *snapshotsCheck) compare(m *Message, promise Promise) {
	if !c.walker.known || c.walker.revision < m.Revision {
		c.report.Unknown++
		return
	}
	c.report.Compared++
	if diff := difference(c.held, selected(c.walker.state, c.history.Selection)); diff != "" {
		c.violated(promise, "at %v the subscriber holds %s", m, diff)
	}
}
