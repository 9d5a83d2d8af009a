package journal

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// Client is the process that opened the connection of a subscriber.
type Client struct {
	// PID and UID are those of a process, over a unix socket.
	PID int32
	UID *uint32
	// Address and User are those of a client over TCP.
	Address, User string
	UserAgent     string
}

// Subscriber is an entry for one subscriber.
type Subscriber struct {
	journal *Journal
	id      int64
	opened  time.Time
	// since is the newest revision at that time.
	since    int64
	mode     string
	ops      Operations
	client   Client
	position atomic.Int64
	resets   atomic.Int32
}

// Subscribe registers a subscriber. It is listed in the status, and the operations that
// it requests are recorded. The caller must close it.
func (j *Journal) Subscribe(mode string, ops Operations, client Client) *Subscriber {
	j.ask(ops)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nextID++
	s := &Subscriber{journal: j, id: j.nextID, opened: time.Now(), since: j.table.revision, mode: mode, ops: ops, client: client}
	j.subscribers[s] = struct{}{}
	s.position.Store(j.table.revision)
	return s
}

// Close removes the subscriber. It may be called more than once.
func (s *Subscriber) Close() {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if _, ok := s.journal.subscribers[s]; ok {
		delete(s.journal.subscribers, s)
		s.journal.leaveLocked(s.ops, time.Now())
	}
}

// Live reports whether a set was recorded while the subscriber was there. A set from before, with
// which it resumes, is late for another reason.
func (s *Subscriber) Live(set *Set) bool { return set.Revision > s.since }

// MoveTo sets the revision that the subscriber has reached.
func (s *Subscriber) MoveTo(revision int64) { s.position.Store(revision) }

// Reset counts a reset of the subscriber. The error is why.
func (s *Subscriber) Reset(why error) {
	s.resets.Add(1)
	reason := ResetBehind
	if compacted, ok := errors.AsType[*CompactedError](why); ok {
		reason = compacted.reason
	}
	s.journal.metrics.resets.WithLabelValues(string(reason)).Inc()
}

// slowestLocked returns the lag of the subscriber that is furthest behind: in revisions, and the
// age of the oldest update that it has not got.
func (j *Journal) slowestLocked(now time.Time) (revisions int64, age time.Duration) {
	newest := j.newestLocked()
	slowest := newest
	for s := range j.subscribers {
		slowest = min(slowest, s.position.Load())
	}
	if i := j.searchLocked(slowest); i < j.ring.len() {
		age = max(0, now.Sub(j.ring.at(i).Time))
	}
	return newest - slowest, age
}

// newestLocked returns the newest revision that can be read: the head may be after it.
func (j *Journal) newestLocked() int64 {
	if n := j.ring.len(); n > 0 {
		return j.ring.at(n - 1).Revision
	}
	return j.compacted
}

// Status returns the journal's part of the status: revisions, readiness, pods, sources
// and subscribers.
func (j *Journal) Status() v1alpha1.Status {
	j.mu.RLock()
	defer j.mu.RUnlock()
	present := j.table
	status := v1alpha1.Status{
		Instance: j.instance, Revision: present.revision, Compacted: j.compacted,
		Ready: present.bookmark.Ready, Pods: present.pods.Len(),
		Sources:     make([]v1alpha1.SourceStatus, 0, len(present.bookmark.Sources)),
		Subscribers: make([]v1alpha1.Subscriber, 0, len(j.subscribers)),
	}
	pods := make(map[string]int)
	for p := range present.all() {
		pods[p.Source]++
	}
	for name, s := range present.bookmark.Sources {
		status.Sources = append(status.Sources, v1alpha1.SourceStatus{Name: name, Seen: s.Seen, Restored: s.Restored, Pods: pods[name]})
	}
	slices.SortFunc(status.Sources, func(a, b v1alpha1.SourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	newest := j.newestLocked()
	for s := range j.subscribers {
		position := s.position.Load()
		status.Subscribers = append(status.Subscribers, v1alpha1.Subscriber{
			ID: s.id, Mode: v1alpha1.Mode(s.mode), Since: s.opened, Resets: int(s.resets.Load()),
			PID: s.client.PID, UID: s.client.UID, Address: s.client.Address, User: s.client.User, UserAgent: s.client.UserAgent,
			Revision: position, Lag: max(0, newest-position),
		})
	}
	slices.SortFunc(status.Subscribers, func(a, b v1alpha1.Subscriber) int { return cmp.Compare(a.ID, b.ID) })
	return status
}

// linger is how long an operation that is recorded on demand is still recorded after its
// last subscriber has left. The subscriber may return and resume.
const linger = 5 * time.Minute

// demand is the demand for an operation that is recorded only while a subscriber requests
// it.
type demand struct {
	subscribers int
	// until is the end of the recording, after the last subscriber has left.
	until time.Time
	// since is the revision since which the operation is recorded without a break; 0 if it always was. It is one after
	// the newest at which the operation was not recorded.
	since int64
}

// onDemand reports whether the operation is recorded only while a subscriber requests it.
func onDemand(op config.PodOperation) bool {
	return op == config.SYNC || op == config.PLEG
}

func (j *Journal) demandLocked(op config.PodOperation) *demand {
	d := j.demand[op]
	if d == nil {
		d = new(demand)
		j.demand[op] = d
	}
	return d
}

// wanted reports whether the operation is recorded now, at a revision. If not, it is recorded after it at the earliest.
func (j *Journal) wanted(op config.PodOperation, revision int64, now time.Time) bool {
	if !onDemand(op) {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.demandLocked(op)
	if d.subscribers > 0 || now.Before(d.until) {
		return true
	}
	d.since = revision + 1
	return false
}

// ask counts a subscriber that requests the operations. If one was not recorded at the
// newest revision, it advances the revision, so that the subscriber can resume from there.
func (j *Journal) ask(ops Operations) {
	j.intake.mu.Lock()
	missing := j.askFor(ops)
	if missing {
		j.commit(j.intake.advance(time.Now()))
	}
	head := j.intake.head
	j.intake.mu.Unlock()
	if missing {
		j.await(head)
	}
}

// Advance advances the revision without an update, and returns the revision before. Nobody has read a later
// one. So a subscriber can tell what it got before from what it gets now. Advance does not wait for the store:
// until subscribers can read the new revision, what they get can have the revision before or an earlier one.
func (j *Journal) Advance() (before int64) {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	before = j.intake.head
	j.commit(j.intake.advance(time.Now()))
	return before
}

// askFor counts the subscriber, and reports whether it can't resume from the newest revision that subscribers can
// read. After a restart, that is so for operations that are always recorded, too.
func (j *Journal) askFor(ops Operations) (missing bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for op, wanted := range ops {
		if !wanted {
			continue
		}
		if onDemand(op) {
			j.demandLocked(op).subscribers++
		}
		if d := j.demand[op]; d != nil {
			missing = missing || j.table.revision < d.since
		}
	}
	return missing
}

// patience is more than a store takes to show a set, also if it fails.
const patience = 2 * time.Second

// await waits until subscribers can read the revision. A log that ends shows nothing any
// more, so it does not wait long.
func (j *Journal) await(revision int64) {
	var timeout <-chan time.Time
	for {
		j.mu.RLock()
		head, changed := j.table.revision, j.changed
		j.mu.RUnlock()
		if head >= revision {
			return
		}
		if timeout == nil {
			timeout = time.After(patience)
		}
		select {
		case <-changed:
		case <-timeout:
			return
		}
	}
}

// leaveLocked stops counting the subscriber.
func (j *Journal) leaveLocked(ops Operations, now time.Time) {
	for op, wanted := range ops {
		if wanted && onDemand(op) {
			d := j.demandLocked(op)
			d.subscribers--
			d.until = now.Add(linger)
		}
	}
}

// Operations is a set of operations.
type Operations map[config.PodOperation]bool
