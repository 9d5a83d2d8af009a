package history

import "fmt"

// Promise is one of the six promises.
type Promise string

// The promises.
const (
	Ordered      Promise = "ordered"
	Unique       Promise = "unique"
	Reliable     Promise = "reliable"
	Atomic       Promise = "atomic"
	Resumable    Promise = "resumable"
	Bookmarkable Promise = "bookmarkable"
)

// Options describe the daemon.
type Options struct {
	// MaxUpdates is the number of updates that the daemon keeps.
	MaxUpdates int
	// Clashes means that a name may be in several sources. Such an update takes more
	// revisions than it has pods.
	Clashes bool
	// Node means that there is an apiserver. The node that it has takes a revision, which
	// subscribers to pods do not get.
	Node bool
	// Durable means that the daemon has a state directory. A start goes on with the instance. It skips revisions, and
	// so does the first start. Only a subscriber that fell behind may get a reset. An update that changes nothing is
	// a fault.
	Durable bool
}

// restart is less than the revisions that a start skips, and more than any update takes.
const restart = 1 << 18

// Violation is a broken promise.
type Violation struct {
	Promise    Promise
	Subscriber string
	// Connection and Message count from 0. Message is -1 for the connection as a whole.
	Connection, Message int
	What                string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s, connection %d, message %d: %s", v.Promise, v.Subscriber, v.Connection, v.Message, v.What)
}

// Report is the result of the checker.
type Report struct {
	Violations []Violation
	// Updates counts the updates of the log, and Messages those of the histories.
	// Compared counts the comparisons of messages and states with the log, Unknown the
	// messages for which the log has a hole. Resumes, Resets and Bookmarks count what was
	// judged.
	Updates, Messages, Compared, Unknown, Resumes, Resets, Bookmarks int
}

func (r *Report) String() string {
	return fmt.Sprintf("%d violations; %d updates, %d messages, %d comparisons with the log, %d not known to it; %d resumes, %d resets, %d bookmarks",
		len(r.Violations), r.Updates, r.Messages, r.Compared, r.Unknown, r.Resumes, r.Resets, r.Bookmarks)
}

// updatesOfASet is the maximum number of updates of a set. A set leaves the journal as a
// whole. So some of its updates after a revision within it may be gone.
const updatesOfASet = 5

// Check judges histories of the same daemon, which may have been restarted.
func Check(histories []*History, opts Options) *Report {
	r := new(Report)
	log := newLog(histories, opts, r)
	if opts.Durable && len(log.order) > 1 {
		(&cursor{report: r, history: new(History)}).violated(Reliable, "a start began a new instance")
	}
	for _, h := range histories {
		c := cursor{report: r, log: log, history: h}
		switch h.View {
		case Stream:
			(&streamCheck{cursor: c, seen: make(map[place]bool)}).run()
		case Snapshots:
			(&snapshotsCheck{cursor: c}).run()
		case Names:
			(&namesCheck{cursor: c}).run()
		case UIDs:
			(&uidsCheck{cursor: c}).run()
		}
	}
	return r
}

// cursor is the checker's position in a history.
type cursor struct {
	report  *Report
	log     *log
	history *History
	// connection and message count from 0.
	connection, message int
}

// reset counts a reset at a revision, which is 0 if the subscriber has none yet. If the
// journal is durable and has all updates, no reset is right.
func (c *cursor) reset(at int64) {
	c.report.Resets++
	if at != 0 && c.log.opts.Durable && c.report.Updates < c.log.opts.MaxUpdates {
		c.violated(Reliable, "a reset at revision %d, though the journal has all updates", at)
	}
}

func (c *cursor) violated(promise Promise, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{
		promise, c.history.Subscriber, c.connection, c.message, fmt.Sprintf(format, args...),
	})
}
