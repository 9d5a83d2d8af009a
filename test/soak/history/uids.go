package history

import (
	"maps"
	"strconv"
)

// uidsCheck judges a subscriber of the Pods API. Its events have no revision, and every
// connection starts with the current pods. So events are identified by the version of
// their pod, which is an increasing number. It determines their place in the log.
type uidsCheck struct {
	cursor

	held   map[string]Pod
	synced bool
	// newest is the newest version of each pod.
	newest map[key]int
	// follow are the possible places of the subscriber in the log, after the current
	// pods.
	follow []*spot
	// whole means that the log is complete, and no subscriber can have fallen behind.
	whole bool
}

// spot is one place. due are the changes of its set that were not sent to the subscriber
// yet.
type spot struct {
	walker *walker
	held   map[string]Pod
	due    map[change]bool
}

// change is the change of a UID by a set.
type change struct {
	op  string
	pod Pod
}

func (c *uidsCheck) run() {
	c.whole = c.log.complete && c.report.Updates < c.log.opts.MaxUpdates
	c.newest = make(map[key]int)
	for i, connection := range c.history.Connections {
		c.connection, c.message = i, -1
		c.held, c.synced, c.follow = make(map[string]Pod), false, nil
		for k, m := range connection.Messages {
			c.message = k
			if m.Op == Bookmark {
				c.present(m)
			}
			for _, p := range m.Pods {
				c.event(m, p)
			}
		}
	}
}

// event handles an event, which must fit the subscriber's state.
func (c *uidsCheck) event(m *Message, p Pod) {
	before, there := c.held[p.UID]
	version, err := strconv.Atoi(p.Version)
	newest := c.newest[p.key()]
	switch {
	case m.Op == Remove && there && err != nil: // of a pod that was removed while the subscriber was behind
		version = newest
	case err != nil:
		c.violated(Atomic, "%v has no version", m)
	case version < newest:
		c.violated(Ordered, "%v comes after version %d", m, newest)
	}
	c.newest[p.key()] = max(version, newest)
	switch {
	case !c.synced && m.Op != Add:
		c.violated(Bookmarkable, "%v comes before the present pods are complete", m)
	case m.Op == Add && there, m.Op == Update && before == p:
		c.violated(Unique, "%v, though %v is there", m, before)
	case m.Op != Add && !there:
		c.violated(Reliable, "%v is of a pod that is not there", m)
	case c.synced && c.whole:
		c.next(m, change{m.Op, p})
	}
	if m.Op == Remove {
		delete(c.held, p.UID)
	} else {
		c.held[p.UID] = p
	}
}

// present handles the end of the current pods. They must be the state after a set.
func (c *uidsCheck) present(m *Message) {
	c.report.Bookmarks++
	if c.synced {
		c.violated(Bookmarkable, "%v comes again", m)
		return
	}
	c.synced = true
	if !c.log.complete {
		c.report.Unknown++
		return
	}
	for _, w := range c.log.having(c.held) {
		c.follow = append(c.follow, &spot{walker: w, held: maps.Clone(c.held)})
	}
	if c.report.Compared++; len(c.follow) == 0 {
		c.violated(Bookmarkable, "the present pods are those of no revision: %v", c.held)
	}
}

// next continues from each place at which the event can come next.
func (c *uidsCheck) next(m *Message, e change) {
	if len(c.follow) == 0 {
		return // already reported
	}
	var follow []*spot
	var due map[change]bool
	for _, f := range c.follow {
		if f.take(e) {
			follow = append(follow, f)
		} else {
			due = f.due
		}
	}
	c.report.Compared++
	if c.follow = follow; len(follow) > 0 {
		return
	}
	promise := Reliable
	if len(due) == 0 {
		promise = Ordered
	}
	c.violated(promise, "%v comes, want one of %v", m, due)
}

// take moves to the next set with a change, and reports whether the event belongs to it.
func (f *spot) take(e change) bool {
	for len(f.due) == 0 {
		if _, more := f.walker.peek(); !more {
			return false
		}
		if f.walker.step(); !f.walker.last() {
			continue
		}
		now := byUID(f.walker.state)
		f.due = changes(f.held, now)
		f.held = now
	}
	if !f.due[e] {
		return false
	}
	delete(f.due, e)
	return true
}

// changes returns the events between two states.
func changes(before, after map[string]Pod) map[change]bool {
	all := make(map[change]bool)
	for uid, p := range after {
		if was, there := before[uid]; !there {
			all[change{Add, p}] = true
		} else if was != p {
			all[change{Update, p}] = true
		}
	}
	for uid, p := range before {
		if _, there := after[uid]; !there {
			all[change{Remove, p}] = true
		}
	}
	return all
}
