package journal

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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
