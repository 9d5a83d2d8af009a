package journal_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
)

// life is a random life of two sources. Their pods share names, and some are mirror pods.
type life struct {
	random *rand.Rand
	pods   map[string]map[types.UID]*v1.Pod
}

func (l *life) step(d *durable) {
	if l.random.IntN(8) == 0 {
		d.Append(config.PodUpdate{Op: config.SYNC, Source: "file", Pods: []*v1.Pod{journaltest.Pod("a")}})
		s := d.Subscribe("", journal.Operations{config.SYNC: true}, journal.Client{})
		d.Append(config.PodUpdate{Op: config.SYNC, Source: "file", Pods: []*v1.Pod{journaltest.Pod("a"), journaltest.Pod("b")}})
		s.Close()
		return
	}
	source := []string{"api", "file"}[l.random.IntN(2)]
	present := l.pods[source]
	if l.random.IntN(4) == 0 {
		for _, uid := range slices.Sorted(maps.Keys(present)) {
			d.Append(config.PodUpdate{
				Op: config.RECONCILE, Source: source, Pods: []*v1.Pod{present[uid]}, Statuses: []*v1.PodStatus{{Message: fmt.Sprint(l.random.Int())}}, StatusOnly: true,
			})
			return
		}
	}
	removes, adds, updates := journaltest.Update(config.REMOVE), journaltest.Update(config.ADD), journaltest.Update(config.UPDATE)
	for range 1 + l.random.IntN(4) {
		p := journaltest.Pod(fmt.Sprintf("%c=%d", 'a'+rune(l.random.IntN(5)), l.random.Int()))
		p.UID = types.UID(fmt.Sprintf("%s-%s-%d", source, p.Name, l.random.IntN(2)))
		if source == "api" && l.random.IntN(2) == 0 {
			p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
		}
		before := present[p.UID]
		switch {
		case before == nil:
			adds.Pods = append(adds.Pods, p)
			present[p.UID] = p
		case l.random.IntN(2) == 0 && !slices.Contains(adds.Pods, before) && !slices.Contains(updates.Pods, before):
			removes.Pods = append(removes.Pods, before)
			delete(present, p.UID)
		default:
			updates.Pods = append(updates.Pods, p)
			present[p.UID] = p
		}
	}
	var set []config.PodUpdate
	for _, u := range []config.PodUpdate{removes, adds, updates} {
		u.Source = source
		for range u.Pods {
			u.Statuses = append(u.Statuses, l.status())
		}
		if len(u.Pods) > 0 {
			set = append(set, u)
		}
	}
	if source == "api" {
		set[len(set)-1].Attributes = map[string]string{"n": fmt.Sprint(l.random.Int())}
	}
	journaltest.AppendSet(d, set...)
}

// status returns a status from the runtime, or nil.
func (l *life) status() *v1.PodStatus {
	if l.random.IntN(2) == 0 {
		return nil
	}
	return &v1.PodStatus{Phase: v1.PodRunning, Message: fmt.Sprint(l.random.Int())}
}

// told is what any subscriber could have got from a journal, without pointers.
type told struct {
	Instance string
	Revision int64
	Pods     []string
	Names    []string
	Sets     []string
}

func tell(t *testing.T, d *durable) told {
	t.Helper()
	describe := func(p *journal.Pod) string {
		if p == nil {
			return "none"
		}
		data, err := p.Object.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		merged, err := p.Merged.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s/%s@%d %x %x %v", p.Source, p.Object.UID, p.Revision, data, merged, p.Status)
	}
	state := d.State()
	all := told{Instance: state.Instance, Revision: state.Revision}
	for _, p := range state.Pods {
		all.Pods = append(all.Pods, describe(p))
	}
	named, _, err := d.Named(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range named {
		all.Names = append(all.Names, describe(p))
	}
	for _, set := range d.Sets() {
		if set.Readied || len(set.Updates) == 1 && !set.Updates[0].Op.IsConfig() {
			continue // not stored
		}
		text := fmt.Sprintf("%s %d-%d %v\n", set.Instance, set.First, set.Revision, set.Time.UnixNano())
		for _, u := range set.Updates {
			text += fmt.Sprintf("%s %s %s %d-%d %v\n", u.Instance, u.Op, u.Source, u.First, u.Revision, u.Mirrors)
			for k := range u.Pods {
				text += describe(u.Before[k]) + " -> " + describe(u.Pods[k]) + "\n"
			}
		}
		for _, changes := range [][]journal.Change{set.Names, set.UIDs} {
			for _, c := range changes {
				text += fmt.Sprintf("%d: %s -> %s\n", c.Revision, describe(c.Before), describe(c.After))
			}
		}
		all.Sets = append(all.Sets, text)
	}
	return all
}

// After a restart, the journal has the instance, the revisions, the state and the ring of
// before, also after several restarts, with names that several sources have.
func TestARestartRestoresWhatSubscribersGot(t *testing.T) {
	for seed := range uint64(20 / testutil.Stride(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			opts := store.Options{Dir: t.TempDir(), SegmentBytes: 2 << 10}
			l := &life{rand.New(rand.NewPCG(seed, 1)), map[string]map[types.UID]*v1.Pod{"api": {}, "file": {}}}
			d := startDurable(t, opts)
			for range 4 {
				for range l.random.IntN(40) {
					l.step(d)
				}
				d.settle(t)
				before := tell(t, d)
				d.stop()
				d = startDurable(t, opts)
				after := tell(t, d)
				if n := len(before.Sets) - len(after.Sets); n > 0 { // older segments may be beyond what is replayed
					before.Sets = before.Sets[n:]
				}
				if !d.recovered.Resumed || !reflect.DeepEqual(before, after) {
					t.Fatalf("before:\n%+v\nafter:\n%+v", before, after)
				}
				l.adopt(d)
			}
		})
	}
}

// adopt takes over the restored objects, as the merge does.
func (l *life) adopt(d *durable) {
	for source := range l.pods {
		clear(l.pods[source])
	}
	for _, p := range d.State().Pods {
		l.pods[p.Source][p.Object.UID] = p.Merged
	}
}
