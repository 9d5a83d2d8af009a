package podsapi

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/internal/await"
)

// doubts has the pods in doubt: it is not known which of their statuses is the newest, so GetPod has to decide.
type doubts struct {
	wake chan struct{}

	mu   sync.Mutex // guards uids
	uids map[types.UID]struct{}
}

func newDoubts() doubts {
	return doubts{wake: make(chan struct{}, 1), uids: make(map[types.UID]struct{})}
}

func (d *doubts) addDoubts(uids ...types.UID) {
	if len(uids) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, uid := range uids {
		d.uids[uid] = struct{}{}
	}
	await.Signal(d.wake)
}

// drainDoubts returns the pods, ordered by UID, and forgets them.
func (d *doubts) drainDoubts() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	uids := make([]types.UID, 0, len(d.uids))
	for uid := range d.uids {
		uids = append(uids, uid)
	}
	clear(d.uids)
	slices.Sort(uids)
	return uids
}
