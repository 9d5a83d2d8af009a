package history

// namesCheck judges a subscriber of the Kubernetes API. Each event has its own revision,
// also within a set. So the state is compared at the end of a set.
type namesCheck struct {
	cursor

	// at is the newest revision, and bookmarked the newest of a bookmark.
	at, bookmarked int64
	seen           map[int64]bool
	held           map[name]Pod
	walker         *walker

	// opening means that a watch sends the current pods. partial means that its
	// connection was cut, so that the subscriber has the state of no revision until the
	// next list.
	opening, partial bool
	// expired is a revision that the daemon reported as gone.
	expired int64
}

func (c *namesCheck) run() {
	c.seen, c.held = make(map[int64]bool), make(map[name]Pod)
	for i, connection := range c.history.Connections {
		c.connection, c.message = i, -1
		c.connect(connection)
		for k, m := range connection.Messages {
			c.message = k
			c.take(m)
		}
	}
}

func (c *namesCheck) connect(connection *Connection) {
	c.partial = c.partial || c.opening && len(c.held) > 0
	if c.opening = connection.Since == 0; c.opening {
		c.held, c.partial = make(map[name]Pod), false
		c.at = 0
		return
	}
	c.report.Resumes++
	if connection.Since != c.at {
		c.violated(Resumable, "the subscriber resumes from %d, though it saved %d", connection.Since, c.at)
	}
}

func (c *namesCheck) take(m *Message) {
	switch {
	case m.Reset:
		c.reset(c.at)
		c.expired = c.at
		return
	case m.Revision == 0:
		c.violated(Resumable, "%v has no revision", m)
		return
	case m.Op == List:
		c.list(m)
	case m.Op == Bookmark:
		c.bookmark(m)
	default:
		c.event(m)
	}
}

// list handles a list.
func (c *namesCheck) list(m *Message) {
	c.opening, c.partial, c.held = false, false, make(map[name]Pod)
	for _, p := range m.Pods {
		if _, twice := c.held[p.name()]; twice {
			c.violated(Unique, "%v is twice in the list", p)
		}
		c.held[p.name()] = p
	}
	c.present(m.Revision)
}

// present judges the current pods, which must be those at a revision.
func (c *namesCheck) present(revision int64) {
	line := c.log.lineOf(revision)
	same := c.walker != nil && c.walker.line == line
	if !same {
		c.walker = nil
	}
	if line != nil && !same {
		c.walker = c.log.walkOf(line)
	}
	updates, known := 0, same && c.walker.known && c.expired != 0
	for c.walker != nil {
		next, more := c.walker.peek()
		if !more || next > revision {
			break
		}
		e, follows := c.walker.step()
		if known = known && follows; e != nil && e.revision > c.expired {
			updates++
		}
	}
	if known && updates+updatesOfASet < c.log.opts.MaxUpdates {
		c.violated(Reliable, "revision %d is gone, though only %d updates came after it", c.expired, updates)
	}
	c.at, c.expired = revision, 0
	c.compare(revision, Reliable)
}

// compare compares the subscriber's state with the log at a revision.
func (c *namesCheck) compare(revision int64, promise Promise) {
	if c.partial || c.walker == nil || !c.walker.known || c.walker.revision != revision || !c.walker.last() {
		c.report.Unknown++
		return
	}
	c.report.Compared++
	if diff := difference(c.held, named(c.walker.state, c.history.Selection)); diff != "" {
		c.violated(promise, "at %d the subscriber holds %s", revision, diff)
		c.held = named(c.walker.state, c.history.Selection) // to report one violation once
	}
}

// upTo compares at the end of each set before a revision.
func (c *namesCheck) upTo(before int64, promise Promise) {
	if c.walker == nil {
		return
	}
	for next, more := c.walker.peek(); more && next < before; next, more = c.walker.peek() {
		if _, follows := c.walker.step(); follows && next >= c.at && c.walker.last() {
			c.compare(next, promise)
		}
	}
}

func (c *namesCheck) bookmark(m *Message) {
	c.report.Bookmarks++
	if m.Revision < c.at {
		c.violated(Ordered, "%v comes after revision %d", m, c.at)
		return
	}
	if m.Synced != c.opening {
		c.violated(Bookmarkable, "%v, though the present pods are being sent: %t", m, c.opening)
	}
	if c.opening {
		c.opening = false
		c.present(m.Revision)
	}
	c.upTo(m.Revision+1, Bookmarkable)
	c.at, c.bookmarked = m.Revision, m.Revision
}

func (c *namesCheck) event(m *Message) {
	switch {
	case m.Revision > c.at:
	case c.opening:
		c.violated(Ordered, "%v comes after revision %d, among the present pods", m, c.at)
	case c.seen[m.Revision]:
		c.violated(Unique, "%v comes again", m)
		return
	case c.at == c.bookmarked:
		c.violated(Bookmarkable, "%v comes after the bookmark of %d", m, c.bookmarked)
		return
	default:
		c.violated(Ordered, "%v comes after revision %d", m, c.at)
		return
	}
	if !c.opening {
		promise := Reliable
		if connection := c.history.Connections[c.connection]; connection.Since == c.at {
			promise = Resumable
		}
		c.upTo(m.Revision, promise)
		c.seen[m.Revision] = true
	}
	c.at = m.Revision
	for _, p := range m.Pods {
		c.pod(m, p)
	}
}

// pod handles the pod of an event, which must fit the subscriber's state.
func (c *namesCheck) pod(m *Message, p Pod) {
	before, there := c.held[p.name()]
	switch {
	case c.partial:
	case m.Op == Add && there:
		c.violated(Unique, "%v is added, though %v is there", m, before)
	case m.Op != Add && !there:
		c.violated(Reliable, "%v is of a pod that is not there", m)
	case m.Op != Add && before.UID != p.UID:
		c.violated(Atomic, "%v takes the place of %v, which was not deleted", m, before)
	}
	if m.Op == Remove {
		delete(c.held, p.name())
	} else {
		c.held[p.name()] = p
	}
}
