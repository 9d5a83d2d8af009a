package journal_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
)

// An update of statuses alone is no set of the source: it does not make a source seen that is
// only restored, and the attributes and files of the last set stay. What the source sent is
// stored apart from the status.
func TestStatusIsNoSet(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	set := journaltest.Update(config.ADD, "a")
	set.Source, set.Attributes = "file", map[string]string{"ETag": "1"}
	set.Files = []*config.File{{Path: "a.yaml"}}
	journaltest.AppendSet(d, set)
	a := set.Pods[0]
	status := func(phase v1.PodPhase) config.PodUpdate {
		return config.PodUpdate{
			Op: config.RECONCILE, Source: "file", Pods: []*v1.Pod{a}, Files: set.Files, StatusOnly: true,
			Statuses: []*v1.PodStatus{{Phase: phase}},
		}
	}
	d.Append(status(v1.PodRunning))
	d.settle(t)
	revision := d.Revision()
	d.stop()

	d = startDurable(t, opts)
	d.Append(status(v1.PodFailed))
	d.settle(t)
	if restored := d.Restored(); len(restored) != 1 || restored[0] != "file" {
		t.Errorf("restored are %v", restored)
	}
	if d.Revision() <= revision {
		t.Errorf("revision %d after %d", d.Revision(), revision)
	}
	d.stop()

	d = startDurable(t, opts)
	if got := d.Sources()["file"].Attributes["ETag"]; got != "1" {
		t.Errorf("the ETag is %q", got)
	}
	p := d.State().Pods[0]
	if p.Object.Status.Phase != v1.PodFailed || p.Merged.Status.Phase != a.Status.Phase || p.File == nil || p.File.Path != "a.yaml" {
		t.Errorf("shown %s, sent %s, file %v", p.Object.Status.Phase, p.Merged.Status.Phase, p.File)
	}
}

// A SYNC has the version of the pod that subscribers have. A new status is a new version.
func TestVersionsWithAStatus(t *testing.T) {
	j := journal.New(journal.Options{Sources: []string{"file"}})
	s := j.Subscribe("", journal.Operations{config.SYNC: true}, journal.Client{})
	defer s.Close()
	u := journaltest.Update(config.ADD, "a")
	u.Statuses = []*v1.PodStatus{{Phase: v1.PodRunning}}
	journaltest.AppendSet(j, u)
	first := j.State().Pods[0]
	j.Append(config.PodUpdate{Op: config.SYNC, Source: u.Source, Pods: u.Pods})
	reading, err := j.After(first.Revision, nil, 10)
	if err != nil || len(reading.Sets) != 2 || reading.Sets[1].Updates[0].Pods[0] != first {
		t.Errorf("the SYNC is %v (%v)", reading, err)
	}
	u.Op, u.StatusOnly, u.Statuses = config.RECONCILE, true, nil
	journaltest.AppendSet(j, u)
	if second := j.State().Pods[0]; second.Object != u.Pods[0] || second.Revision <= first.Revision {
		t.Errorf("without a status, the pod has phase %s at %d", second.Object.Status.Phase, second.Revision)
	}
}
