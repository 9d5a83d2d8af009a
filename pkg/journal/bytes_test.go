package journal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// heldByRing returns the bytes of the versions in the ring that are not current. Each
// version counts once.
func heldByRing(j *Journal) (bytes int64) {
	counted := make(map[*v1.Pod]bool)
	for p := range j.table.all() {
		counted[p.Object] = true
	}
	for i := range j.ring.len() {
		bytes += j.ring.at(i).nodes()
		for _, c := range j.ring.at(i).Objects {
			bytes += c.size()
		}
		for _, u := range j.ring.at(i).Updates {
			for k, p := range u.Pods {
				for _, version := range []*Pod{p, u.Before[k]} {
					if version != nil && !counted[version.Object] {
						counted[version.Object] = true
						bytes += int64(version.size) * memoryFactor
					}
				}
			}
		}
	}
	return bytes
}

// sourced returns a pod of "file", as the merge annotates it.
func sourced(content string) *v1.Pod {
	p := pod(content)
	p.Annotations = map[string]string{config.ConfigSourceAnnotationKey: "file"}
	return p
}

// randomUpdates returns random updates of one set. Some have a pod twice, a REMOVE of an
// unknown pod, or a version that is already current.
func randomUpdates(r *rand.Rand, j *Journal) (set []config.PodUpdate) {
	last := make(map[types.UID]*v1.Pod)
	for range 1 + r.IntN(3) {
		u := update([]config.PodOperation{config.ADD, config.UPDATE, config.REMOVE, config.RECONCILE}[r.IntN(4)])
		for range r.IntN(4) {
			uid := types.UID(fmt.Sprint("p", r.IntN(6)))
			p, touched := last[uid]
			if present := j.ByUID(uid); !touched && present != nil {
				p = present.Object
			}
			if p == nil || r.IntN(3) > 0 {
				p = sourced(fmt.Sprintf("%s=%d", uid, r.IntN(9)))
			}
			u.Pods = append(u.Pods, p)
			if last[uid] = p; u.Op == config.REMOVE {
				last[uid] = nil
			}
		}
		set = append(set, u)
	}
	return set
}

// The ring's count of bytes is always the size of the versions that only the ring holds.
func TestBytesAreWhatTheRingHolds(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := newJournal(Options{MaxUpdates: 1 + r.IntN(20), MaxBytes: size(1 + r.IntN(20))})
		if r.IntN(2) == 0 {
			t.Cleanup(j.Subscribe("", Operations{config.PLEG: true, config.SYNC: true}, Client{}).Close)
		}
		for step := range 100 {
			switch r.IntN(8) {
			case 0:
				j.RecordEvent(sourced("p1=other"), &v1alpha1.Event{PodUID: "p1"})
			case 1:
				j.HandlePodOrphans(t.Context(), []*v1.Pod{pod(fmt.Sprint("orphan", r.IntN(5)))})
			case 2:
				if p := j.ByUID("p2"); p != nil {
					j.HandlePodSyncs(t.Context(), []*v1.Pod{p.Object})
				}
			default:
				appendSet(j, randomUpdates(r, j)...)
			}
			updates := 0
			for i := range j.ring.len() {
				updates += j.ring.at(i).count()
			}
			if held := heldByRing(j); j.bytes != held || j.updates != updates {
				t.Fatalf("seed %d, step %d: %d bytes in %d updates are counted, the ring holds %d in %d", seed, step, j.bytes, j.updates, held, updates)
			}
		}
	}
}
