package podsapi

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/pkg/podstatus"
)

// statuses has the last status of each pod that the kubelet has.
type statuses struct {
	mu   sync.Mutex // guards what follows
	pods map[types.UID]*entry
	// events counts the events.
	events uint64
	// lists counts the complete lists of pods. The initial events of a watch are one list.
	lists uint64
	// live is false while the kubelet is away.
	live bool
	// changed has the pods whose change was not passed on yet. due is the timer for the first of them; nil for none.
	changed map[types.UID]struct{}
	due     *time.Timer
	notices chan struct{}
}

// entry is a pod of the kubelet.
type entry struct {
	name   types.NamespacedName
	source string
	// status is nil if the kubelet has not computed one yet. sum is the hash of its encoding.
	status *v1.PodStatus
	sum    uint64
	// event is the number of the pod's last event, list the number of the last list with the pod.
	event, list uint64
	// first is higher for a pod that was given first later. seen is when the kubelet first saw the pod.
	first uint64
	seen  time.Time
	// unlisted means that the last list did not have the pod, and a source has it.
	unlisted bool
	// told is when a change of the pod was last passed on.
	told time.Time
}

func newStatuses() *statuses {
	return &statuses{
		pods: make(map[types.UID]*entry), changed: make(map[types.UID]struct{}), notices: make(chan struct{}, 1),
	}
}

// now returns the number of the last event. The answer to a later request is at least as new as that event.
func (s *statuses) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// begin begins a complete list, and returns its number.
func (s *statuses) begin() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return s.lists
}

// event takes an event. It reports whether GetPod has to decide about the pod.
func (s *statuses) event(p *pod, deleted bool) (doubt bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryOf(p)
	s.events++
	e.event = s.events
	if deleted {
		return true, nil
	}
	if p.sum == e.sum && e.status != nil {
		return false, nil
	}
	status, err := p.status()
	switch {
	case err != nil:
		return false, err
	case isPlaceholder(status):
		return true, nil
	case e.status != nil && podstatus.Compare(e.status, status) != podstatus.Newer:
		return true, nil
	}
	s.put(p, e, status)
	return false, nil
}

// answer takes the pod of an answer. asked is the number of the last event before the request. It reports whether GetPod has
// to decide: an event came since, and nothing shows that the answer is newer.
func (s *statuses) answer(p *pod, asked uint64) (doubt bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered(p, asked, false)
}

// listed takes a pod of a complete list, like answer.
func (s *statuses) listed(p *pod, asked, list uint64) (doubt bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entryOf(p).list = list
	return s.answered(p, asked, false)
}

// began takes one of the pods that a watch begins with. For a pod of the apiserver, a kubelet that has just started
// gives the status that the apiserver has, until it computes one. So a status that is older than the last one does not
// replace it. If it is right nevertheless, the next list has it.
//
// kubelet: pkg/kubelet/apis/pods/server.go getEffectivePodStatus.
func (s *statuses) began(p *pod, asked, list uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entryOf(p).list = list
	_, err := s.answered(p, asked, true) // no event came since
	return err
}

// answered is answer with the mutex locked. first means that the watch begins with the pod.
func (s *statuses) answered(p *pod, asked uint64, first bool) (doubt bool, err error) {
	e := s.entryOf(p)
	if p.sum == e.sum && e.status != nil {
		return false, nil
	}
	status, err := p.status()
	if err != nil || isPlaceholder(status) {
		return false, err
	}
	order := podstatus.Newer
	if e.status != nil {
		order = podstatus.Compare(e.status, status)
	}
	switch {
	case first && order == podstatus.Older:
		return false, nil
	case e.event > asked && order != podstatus.Newer:
		return true, nil
	}
	s.put(p, e, status)
	return false, nil
}

// forgetUnlisted ends a complete list. Pods that are not in it, and had no event since the request, are gone. The status of
// those of them that are in kept stands.
func (s *statuses) forgetUnlisted(asked, list uint64, kept map[types.UID]SourcePod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, e := range s.pods {
		if e.list == list || e.event > asked {
			continue
		}
		if _, e.unlisted = kept[uid]; !e.unlisted {
			s.remove(uid)
		}
	}
}

// missing takes the answer that the kubelet does not have a pod. It reports whether GetPod has to decide, like answer.
func (s *statuses) missing(uid types.UID, asked uint64) (doubt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pods[uid]
	if e == nil {
		return false
	}
	if e.event > asked {
		return true
	}
	s.remove(uid)
	return false
}

// entryOf returns the entry of a pod. The caller has locked the mutex.
func (s *statuses) entryOf(p *pod) *entry {
	e := s.pods[p.uid]
	if e == nil {
		e = &entry{name: p.name, first: s.events + s.lists, seen: p.seen}
		s.pods[p.uid] = e
	}
	e.unlisted = false
	if p.source != "" { // DELETED has none
		e.source = p.source
	}
	return e
}

// put replaces the status.
func (s *statuses) put(p *pod, e *entry, status *v1.PodStatus) {
	e.status, e.sum = status, p.sum
	s.change(p.uid, e)
}

// forget forgets all pods.
func (s *statuses) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = false
	for uid := range s.pods {
		s.remove(uid)
	}
	await.Signal(s.notices) // also without pods: Enabled may change
}

func (s *statuses) remove(uid types.UID) {
	e := s.pods[uid]
	delete(s.pods, uid)
	if e.status != nil {
		s.changed[uid] = struct{}{}
		await.Signal(s.notices)
	}
}

func (s *statuses) isLive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// setLive records whether the kubelet gives statuses: it is connected, or was awayAfter ago.
func (s *statuses) setLive(live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == live {
		return
	}
	s.live = live
	for uid, e := range s.pods {
		s.change(uid, e)
	}
}

// startingMessage is the message of the condition Ready of a pod of the apiserver whose status the kubelet has not
// computed since its start.
//
// kubelet: pkg/kubelet/apis/pods/server.go getEffectivePodStatus.
const startingMessage = "Kubelet is initializing pod containers"

// isPlaceholder reports whether the kubelet has not computed this status. Until it has, it sends the status that the pod came
// with. A computed status always has a start time.
func isPlaceholder(status *v1.PodStatus) bool {
	if status.StartTime == nil {
		return true
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == v1.PodReady && c.Message == startingMessage {
			return true
		}
	}
	return false
}
