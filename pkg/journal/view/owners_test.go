package view

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Subscribers that request owners get a RECONCILE when they change, in all modes. Nobody else gets anything.
func TestOwners(t *testing.T) {
	known := map[types.UID]string{}
	of := func(p *journal.Pod) []v1alpha1.Owner {
		if name := known[p.Object.UID]; name != "" {
			return []v1alpha1.Owner{{Kind: "Deployment", Name: name}}
		}
		return nil
	}
	shown := func(f *Frame) (all string) {
		for uid, owners := range f.OwnersOfPods() {
			all += string(uid) + "=" + owners[0].Name + " "
		}
		return all
	}
	j := newJournal(journal.Options{})
	j.SetOwners(of)
	j.Append(update(config.ADD, "a=1", "b=1"))
	without := j.watch(StreamOptions{})
	all := j.watch(StreamOptions{Owners: true})
	some := j.watch(StreamOptions{Owners: true, Options: Options{Selector: Selector{Namespace: "default"}, Fields: mask(t, "status.phase")}})
	sets := j.watch(StreamOptions{Owners: true, Mode: SnapshotMode})
	updates := j.watch(StreamOptions{Owners: true, Mode: SnapshotAndUpdatesMode})
	for _, c := range []*testCursor{without, all, some, sets, updates} {
		c.drain()
	}
	uid := pod("a").UID
	known[uid] = "shop"
	j.RecordOwners()
	if frames := without.drain(); len(frames) > 1 || len(frames) == 1 && frames[0].Op != config.BOOKMARK {
		t.Errorf("without owners: got %s", show(j, frames))
	}
	for name, c := range map[string]*testCursor{"all": all, "some": some, "sets": sets, "updates": updates} {
		frames := c.drain()
		if len(frames) != 1 || frames[0].Op != config.RECONCILE || shown(frames[0]) != string(uid)+"=shop " {
			t.Errorf("%s: got %s", name, show(j, frames))
		}
	}
	revision := j.Revision()

	// A change comes with the owners, too. A pod that is gone does not come again.
	j.Append(update(config.UPDATE, "a=2"))
	if frames := all.drain(); len(frames) != 1 || frames[0].Op != config.UPDATE || shown(frames[0]) != string(uid)+"=shop " {
		t.Errorf("after an update: got %s", show(j, frames))
	}
	j.Append(update(config.REMOVE, "a=2"))
	all.drain()
	known[uid] = "other"
	j.RecordOwners()
	if frames := all.drain(); len(frames) > 1 || len(frames) == 1 && frames[0].Op != config.BOOKMARK {
		t.Errorf("after the removal: got %s", show(j, frames))
	}

	// A subscriber resumes. At a start, all pods come.
	resumed := j.watch(StreamOptions{Owners: true, Since: &revision})
	if frames := resumed.drain(); frames[0].Op != config.UPDATE {
		t.Errorf("after a resume: got %s", show(j, frames))
	}
	for _, c := range []*testCursor{all, some, sets, updates, resumed} {
		c.Close()
	}
	j.SetOwners(of)
	j.RecordOwners()
	late := j.watch(StreamOptions{Owners: true, Since: &revision})
	frames := late.drain()
	if last := frames[len(frames)-1]; last.Op != config.RECONCILE || len(last.Pods) != 1 || last.Pods[0].Object.Name != "b" {
		t.Errorf("after a start: got %s", show(j, frames))
	}
}

// An owner that becomes known while the pod changes reaches also who does not get the change.
func TestOwnersKnownDuringAChange(t *testing.T) {
	var known []v1alpha1.Owner
	j := newJournal(journal.Options{})
	j.SetOwners(func(*journal.Pod) []v1alpha1.Owner { return known })
	j.Append(update(config.ADD, "a=1"))
	cursors := map[string]*testCursor{
		"all":    j.watch(StreamOptions{Owners: true}),
		"fields": j.watch(StreamOptions{Owners: true, Options: Options{Fields: mask(t, "metadata.labels")}}),
		"sets":   j.watch(StreamOptions{Owners: true, Mode: SnapshotMode}),
		"ops":    j.watch(StreamOptions{Owners: true, Ops: journal.Operations{config.ADD: true}}),
	}
	for _, c := range cursors {
		c.drain()
	}
	known = []v1alpha1.Owner{{Kind: "Deployment", Name: "shop"}}
	status := update(config.RECONCILE, "a=1")
	status.Pods[0].Status.Phase = "Running"
	j.Append(status)
	j.RecordOwners()
	for name, c := range cursors {
		got := 0
		for _, f := range c.drain() {
			for range f.OwnersOfPods() {
				got++
			}
		}
		if got != 1 {
			t.Errorf("%s: the owners came %d times", name, got)
		}
	}
}

// A subscriber that may not see the owner references of a pod gets nothing when its owner changes, and can't select by it.
func TestHiddenOwners(t *testing.T) {
	name := "web"
	j := newJournal(journal.Options{})
	j.SetOwners(func(*journal.Pod) []v1alpha1.Owner { return []v1alpha1.Owner{{Kind: "Deployment", Name: name}} })
	add := update(config.ADD, "a=1", "b=2")
	for _, p := range add.Pods {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
	}
	appendSet(j, add)
	g := j.gate(rule(t, access.Metadata, "image=1"), rule(t, access.Redacted, "image=2"))
	owners := j.through(t, g, StreamOptions{Owners: true})
	selected := j.through(t, g, StreamOptions{Options: Options{Selector: Selector{Owner: mustOwner("deployment/web")}}})
	for c, want := range map[*testCursor]string{owners: "- ADD a=1 b=2", selected: "- ADD b=2"} {
		if frames := c.drain(); showFrame(j, frames[0]) != want {
			t.Errorf("got %s, want %s", show(j, frames), want)
		}
	}
	name = "db"
	j.RecordOwners()
	for c, want := range map[*testCursor]string{owners: "RECONCILE b=2", selected: "REMOVE b=2"} {
		if frames := c.drain(); !strings.HasSuffix(show(j, frames), want) || len(frames) != 1 {
			t.Errorf("after the change: got %s, want %s", show(j, frames), want)
		}
	}
}

// A pod that was just orphaned still has its earlier owners, which who may not see owner references does not get.
func TestHiddenOwnersOfAnOrphan(t *testing.T) {
	for level, want := range map[access.Level]int{access.Metadata: 0, access.Full: 1} {
		j := newJournal(journal.Options{Sources: []string{config.ApiserverSource}})
		j.SetOwners(func(*journal.Pod) []v1alpha1.Owner { return []v1alpha1.Owner{{Kind: "ReplicaSet", Name: "web-1"}} })
		add, orphan := update(config.ADD, "a=1"), update(config.UPDATE, "a=1")
		add.Source, orphan.Source = config.ApiserverSource, config.ApiserverSource
		add.Pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
		orphan.Pods[0].Labels["orphan"] = "true"
		appendSet(j, add)
		c := j.through(t, j.gate(rule(t, level, "image=1")), StreamOptions{Owners: true})
		c.drain()
		appendSet(j, orphan)
		frames, got := c.drain(), 0
		for range frames[0].OwnersOfPods() {
			got++
		}
		if len(frames) != 1 || frames[0].Op != config.UPDATE || got != want {
			t.Errorf("%v: got %s, the owners of %d pods", level, show(j, frames), got)
		}
	}
}

func mask(t *testing.T, paths ...string) *podfields.Mask {
	t.Helper()
	m, err := podfields.ParseMask(paths)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustOwner(text string) podfields.OwnerSelector {
	s, err := podfields.ParseOwner(text)
	if err != nil {
		panic(err)
	}
	return s
}

// The manifest file of a static pod is for who may see paths, and a subscriber selects by it.
func TestTheFileIsAnOwner(t *testing.T) {
	const path = "/etc/kubernetes/manifests/web.yaml"
	for level, want := range map[access.Level][]string{
		access.Metadata: {"Node"}, access.Redacted: {v1alpha1.FileKind, "Node"}, access.Full: {v1alpha1.FileKind, "Node"},
	} {
		j := newJournal(journal.Options{})
		j.SetOwners(func(p *journal.Pod) (owners []v1alpha1.Owner) {
			if p.File != nil {
				owners = append(owners, v1alpha1.Owner{Kind: v1alpha1.FileKind, Name: p.File.Path})
			}
			return append(owners, v1alpha1.Owner{APIVersion: "v1", Kind: "Node", Name: "node1"})
		})
		u := update(config.ADD, "web=seen")
		u.Files = []*config.File{{Path: path}}
		j.Append(u)
		gate := j.gate(rule(t, level, "image=seen"))
		seen := func(text string) (kinds []string) {
			owner, err := podfields.ParseOwner(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range j.through(t, gate, StreamOptions{Owners: true, Options: Options{Selector: Selector{Owner: owner}}}).drain() {
				for _, owners := range f.OwnersOfPods() {
					for _, o := range owners {
						kinds = append(kinds, o.Kind)
					}
				}
			}
			return kinds
		}
		if got := seen(""); !slices.Equal(got, want) {
			t.Errorf("%v: got %q, want %q", level, got, want)
		}
		if got := seen("file/" + path); len(got) > 0 != (len(want) > 1) {
			t.Errorf("%v: selected by the file: got %q", level, got)
		}
	}
}
