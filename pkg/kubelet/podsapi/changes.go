package podsapi

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
)

// changePeriod is the minimum time between two changes of a pod that are passed on. The last change is always passed on.
const changePeriod = time.Second

// change passes a change on, at once or when changePeriod is over. The caller has locked the mutex.
func (s *statuses) change(uid types.UID, e *entry) {
	s.changed[uid] = struct{}{}
	if wait := time.Until(e.told.Add(changePeriod)); wait > 0 {
		if s.due == nil {
			s.due = time.AfterFunc(wait, s.ring)
		}
		return
	}
	await.Signal(s.notices)
}

// ring passes on a change that is due.
func (s *statuses) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = nil
	await.Signal(s.notices)
}

// stop stops the timer.
func (s *statuses) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due != nil {
		s.due.Stop()
		s.due = nil
	}
}

// dueChanges returns the pods whose changes are due.
func (s *statuses) dueChanges() (uids []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	next := time.Duration(0)
	for uid := range s.changed {
		if e := s.pods[uid]; e != nil {
			if wait := e.told.Add(changePeriod).Sub(now); wait > 0 {
				if next == 0 || wait < next {
					next = wait
				}
				continue
			}
			e.told = now
		}
		delete(s.changed, uid)
		uids = append(uids, uid)
	}
	if next > 0 && s.due == nil {
		s.due = time.AfterFunc(next, s.ring)
	}
	return uids
}
