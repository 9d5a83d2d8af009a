package view

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

func died(name string) (*v1.Pod, *v1alpha1.Event) {
	return pod(name), &v1alpha1.Event{PodUID: name, Type: string(pleg.ContainerDied), ContainerID: "id", Container: "c", ExitCode: new(int32(3))}
}

func TestEventsAreSentOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(journal.Options{})
		j.Append(update(config.ADD, "a"))
		nobody := pod("a")
		nobody.Labels = nil
		j.RecordEvent(nobody, &v1alpha1.Event{PodUID: "a", Type: string(pleg.ContainerStarted)})

		asks := j.watch(StreamOptions{Ops: journal.Operations{config.PLEG: true, config.ADD: true}})
		other := j.watch(StreamOptions{})
		defer other.Close()
		expect(t, asks, "- ADD a", "3 BOOKMARK synced ready")
		expect(t, other, "- ADD a", "3 BOOKMARK synced ready")
		p, e := died("a")
		j.RecordEvent(p, e)
		frames := asks.drain()
		if got := show(j, frames); got != "4 PLEG a" {
			t.Fatalf("got %s", got)
		}
		if e := frames[0].Event; e == nil || e.Type != "ContainerDied" || e.PodUID != "a" || e.ContainerID != "id" || e.Container != "c" || *e.ExitCode != 3 {
			t.Errorf("the event is %+v", e)
		}
		expect(t, other)
		// A subscriber that returns soon gets the events of the meantime.
		asks.Close()
		j.RecordEvent(p, e)
		since := frames[0].Revision
		back := j.watch(StreamOptions{Ops: journal.Operations{config.PLEG: true}, Since: &since})
		expect(t, back, "5 PLEG a")
		back.Close()
		time.Sleep(5 * time.Minute) //nolint:forbidigo // virtual time
		j.RecordEvent(p, e)
		if j.Revision() != since+1 {
			t.Errorf("an event that nobody asked for got revision %d", j.Revision()-j.first)
		}
		// A subscriber that returns late gets a reset.
		late := j.watch(StreamOptions{Ops: journal.Operations{config.PLEG: true}, Since: &since})
		defer late.Close()
		frames = late.drain()
		if got := show(j, frames); got != "- BOOKMARK reset ready\n6 BOOKMARK synced ready" || !strings.Contains(frames[0].Message, "PLEG updates after revision") {
			t.Errorf("got %s, %s", got, frames[0].Message)
		}
		// After that, nothing is missing, although the other subscriber requests nothing.
		since = frames[len(frames)-1].Revision
		again := j.watch(StreamOptions{Ops: journal.Operations{config.PLEG: true}, Since: &since})
		defer again.Close()
		expect(t, again)
		plain := j.watch(StreamOptions{Since: new(j.first + 2)})
		defer plain.Close()
		expect(t, plain)
	})
}

func TestEventsAreSelectedByTheirPod(t *testing.T) {
	j := newJournal(journal.Options{})
	a := j.watch(StreamOptions{Ops: journal.Operations{config.PLEG: true}, Options: Options{Selector: Selector{Fields: fields.OneTermEqualSelector("metadata.name", "a")}}})
	defer a.Close()
	a.drain()
	for _, name := range []string{"a", "b"} {
		p, e := died(name)
		j.RecordEvent(p, e)
	}
	frames := a.drain()
	if got := show(j, frames); got != "1 PLEG a" || frames[0].Event == nil {
		t.Errorf("got %s", got)
	}
}

func TestOrphansAreSentAtTheStartToo(t *testing.T) {
	j := newJournal(journal.Options{})
	ops := journal.Operations{config.HOUSEKEEPING: true}
	early := j.watch(StreamOptions{Ops: ops})
	defer early.Close()
	expect(t, early, "0 BOOKMARK synced")
	j.HandlePodOrphans(t.Context(), []*v1.Pod{pod("x"), pod("y")})
	expect(t, early, "2 HOUSEKEEPING x y")
	late := j.watch(StreamOptions{Ops: ops})
	defer late.Close()
	expect(t, late, "- HOUSEKEEPING x y", "2 BOOKMARK synced")
	only := j.watch(StreamOptions{Ops: ops, Options: Options{Selector: Selector{Fields: fields.OneTermEqualSelector("metadata.name", "y")}}})
	defer only.Close()
	expect(t, only, "- HOUSEKEEPING y", "2 BOOKMARK synced")
	files := j.watch(StreamOptions{Ops: ops, Options: Options{Selector: Selector{Source: "file"}}})
	defer files.Close()
	expect(t, files, "2 BOOKMARK synced") // an orphan has no source
	j.HandlePodOrphans(t.Context(), nil)
	for _, c := range []*testCursor{early, late, only} {
		expect(t, c, "3 HOUSEKEEPING")
	}
	expect(t, files)
	quiet := j.watch(StreamOptions{})
	defer quiet.Close()
	expect(t, quiet, "3 BOOKMARK synced")
	if pods := j.State().Pods; len(pods) > 0 {
		t.Errorf("orphans count as present pods: %d", len(pods))
	}
}
