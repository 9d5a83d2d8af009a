package journal_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
)

// An update of several pods that is no config operation has several revisions. It is not
// stored, but its revisions are. Subscribers resume from before it and from after it.
func TestARestartAfterAnEventOfSeveralPods(t *testing.T) {
	for _, op := range []config.PodOperation{config.HOUSEKEEPING, config.SYNC} {
		t.Run(op.String(), func(t *testing.T) {
			opts := store.Options{Dir: t.TempDir()}
			d := startDurable(t, opts)
			d.Subscribe("", journal.Operations{config.SYNC: true}, journal.Client{})
			d.Append(journaltest.Update(config.ADD, "a", "b"))
			d.settle(t)
			before := d.Revision()
			d.Append(journaltest.Update(op, "a", "b"))
			d.settle(t)
			after := d.Revision()
			if after != before+2 {
				t.Fatalf("revisions %d and %d", before, after)
			}
			d.Append(journaltest.Update(config.UPDATE, "a=2"))
			d.settle(t)
			d.stop()

			d = startDurable(t, opts)
			for _, revision := range []int64{before, after} {
				if err := d.Resumable(d.Instance(), revision, journal.Operations{config.UPDATE: true}); err != nil {
					t.Errorf("resuming from %d: %v", revision, err)
				}
			}
		})
	}
}

// A pod that got its name from another source has another revision under its name. It keeps
// it across restarts, also once the update is no longer replayed.
func TestARevisionByNameIsKept(t *testing.T) {
	opts := store.Options{Dir: t.TempDir(), SegmentBytes: 1 << 10, ReplayBytes: 1}
	d := startDurable(t, opts)
	a, f := journaltest.Update(config.ADD), journaltest.Update(config.ADD)
	a.Source = "api"
	pa, pf := journaltest.Pod("x=1"), journaltest.Pod("x=2")
	pa.UID, pf.UID = "ua", "uf"
	a.Pods, f.Pods = []*v1.Pod{pa}, []*v1.Pod{pf}
	journaltest.AppendSet(d, a)
	journaltest.AppendSet(d, f)
	a.Op = config.REMOVE
	journaltest.AppendSet(d, a)
	d.settle(t)
	name := types.NamespacedName{Namespace: pa.Namespace, Name: pa.Name}
	want := d.ByName(name).Revision
	for i := range 2 {
		d.stop()
		d = startDurable(t, opts)
		journaltest.AppendSet(d, journaltest.Update(config.ADD, fmt.Sprintf("y%d", i)))
		d.settle(t)
	}
	if got := d.ByName(name).Revision; got != want {
		t.Errorf("revision %d before, %d after restarts", want, got)
	}
}
