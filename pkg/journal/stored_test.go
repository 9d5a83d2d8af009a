package journal_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/test/testutil/journaltest"
)

// A set that is not stored yet has revisions, but nobody sees it.
func TestASetIsVisibleOnceItIsStored(t *testing.T) {
	hold := make(chan struct{})
	opts := store.Options{Dir: t.TempDir(), FS: &faultyFS{FS: store.OS, write: func() error { <-hold; return nil }}}
	d := startDurable(t, opts)
	revision := d.Revision()
	changed := d.Subscribe("", nil, journal.Client{})
	defer changed.Close()
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	if d.Revision() != revision || len(d.State().Pods) != 0 || d.ByUID("a") != nil {
		t.Error("a set is visible that is not stored")
	}
	close(hold)
	d.settle(t)
	if d.ByUID("a") == nil {
		t.Error("the set is not visible after it was stored")
	}
}

// Owners are not stored. A change of them changes no revision of a pod, also after a restart. A subscriber that selects by them can't
// resume from before it.
func TestOwnersAreNotStored(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a", "b"))
	d.settle(t)
	revision := d.ByName(types.NamespacedName{Namespace: "default", Name: "a"}).Revision
	for _, owner := range []string{"web", "db", "db"} {
		d.SetOwners(func(*journal.Pod) []v1alpha1.Owner { return []v1alpha1.Owner{{Kind: "Deployment", Name: owner}} })
		d.settle(t)
		if p := d.ByName(types.NamespacedName{Namespace: "default", Name: "a"}); p.Revision != revision || len(p.Owners) != 1 || p.Owners[0].Name != owner {
			t.Errorf("revision %d, want %d, owners %v", p.Revision, revision, p.Owners)
		}
	}
	instance, last := d.Instance(), d.Revision()
	d.stop()
	d = startDurable(t, opts)
	if p := d.ByName(types.NamespacedName{Namespace: "default", Name: "a"}); p.Revision != revision || p.Owners != nil {
		t.Errorf("after a restart: revision %d, want %d, owners %v", p.Revision, revision, p.Owners)
	}
	if err := d.Resumable(instance, last, nil); err != nil {
		t.Error(err)
	}
	if d.Resumable(instance, last, journal.Operations{config.OWNERS: true}) == nil {
		t.Error("a subscriber that needs the owners of before resumes")
	}
}

// A set that could not be stored is shown under another instance, and all subscribers
// start again with it.
func TestASetThatIsNotStoredHasANewInstance(t *testing.T) {
	var broken atomic.Bool
	opts := store.Options{Dir: t.TempDir(), FS: &faultyFS{FS: store.OS, write: func() error {
		if broken.Load() {
			return syscall.ENOSPC
		}
		return nil
	}}}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	d.settle(t)
	before := d.State()
	broken.Store(true)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "b"))
	d.settle(t)
	after := d.State()
	if after.Instance == before.Instance || len(after.Pods) != 2 {
		t.Errorf("instance %s before, %s after, %d pods", before.Instance, after.Instance, len(after.Pods))
	}
	for _, instance := range []string{before.Instance, after.Instance, ""} {
		if err := d.Resumable(instance, before.Revision, nil); err == nil {
			t.Errorf("a subscriber of instance %q resumes where an update was not stored", instance)
		}
	}
	if _, err := d.After(before.Revision, nil, 1); err == nil {
		t.Error("a subscriber goes on where an update was not stored")
	}
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "c"))
	d.settle(t)
	if d.Instance() != after.Instance || d.Resumable(after.Instance, after.Revision, nil) != nil {
		t.Error("the next set began another instance")
	}

	// What was not stored is not there after a restart, and its revisions are not used again.
	last := d.Revision()
	d.stop()
	broken.Store(false)
	d = startDurable(t, opts)
	if d.Instance() != before.Instance || d.Revision() != before.Revision {
		t.Errorf("instance %s revision %d, want %s, %d", d.Instance(), d.Revision(), before.Instance, before.Revision)
	}
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "d"))
	d.settle(t)
	for revision := before.Revision + 1; revision <= last; revision++ {
		if err := d.Resumable("", revision, nil); err == nil {
			t.Errorf("a client resumes from revision %d, which was not stored", revision)
		}
	}
	if err := d.Resumable("", before.Revision, nil); err != nil {
		t.Error(err)
	}
}

// An operation that is not stored was not recorded while the daemon was down.
func TestOperationsThatAreNotStoredHaveAHole(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	d.settle(t)
	revision := d.Revision()
	d.stop()
	d = startDurable(t, opts)
	for op, want := range map[config.PodOperation]string{
		config.SYNC: "SYNC updates", config.PLEG: "PLEG updates", config.HOUSEKEEPING: "HOUSEKEEPING updates", config.OWNERS: "the owners of pods",
	} {
		if err := d.Resumable("", revision, journal.Operations{op: true}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s is resumed across a restart: %v", op, err)
		}
	}
	if err := d.Resumable("", revision, journal.Operations{config.ADD: true}); err != nil {
		t.Error(err)
	}
}

// The revisions that are reserved include the gap at a start.
func TestReservedRevisionsIncludeTheGap(t *testing.T) {
	opts := store.Options{Dir: t.TempDir()}
	d := startDurable(t, opts)
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "a"))
	d.settle(t)
	d.stop()
	d = startDurable(t, opts)
	var ceiling int64
	d.ReserveWith(t.Context(), func(revision int64) error { ceiling = revision; return nil })
	journaltest.AppendSet(d, journaltest.Update(config.ADD, "b"))
	d.settle(t)
	if d.Revision() > ceiling {
		t.Errorf("revision %d is above the ceiling %d", d.Revision(), ceiling)
	}
}

// faultyFS calls write before each write to a file.
type faultyFS struct {
	store.FS

	write func() error
}

func (f *faultyFS) Create(name string) (store.Appender, error) {
	file, err := f.FS.Create(name)
	return &faultyFile{file, f.write}, err
}

type faultyFile struct {
	store.Appender

	write func() error
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.write(); err != nil {
		return 0, err
	}
	n, err := f.Appender.Write(p)
	return n, errors.Join(err)
}
