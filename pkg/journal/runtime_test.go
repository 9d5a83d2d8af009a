package journal

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/pleg"
)

func died(name string) (*v1.Pod, *pleg.PodLifecycleEvent) {
	return pod(name), &pleg.PodLifecycleEvent{ID: pod(name).UID, Type: pleg.ContainerDied, ContainerID: "id", Container: "c", ExitCode: new(int32(3))}
}

func TestEventsAreForThoseWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(Options{})
		ctx := t.Context()
		j.Append(update(config.ADD, "a"))
		nobody := pod("a")
		nobody.Labels = nil
		j.HandlePodLifecycleEvent(ctx, nobody, &pleg.PodLifecycleEvent{ID: "a", Type: pleg.ContainerStarted})

		asks := j.Watch(WatchOptions{Ops: Operations{config.PLEG: true, config.ADD: true}})
		other := j.Watch(WatchOptions{})
		defer other.Close()
		expect(t, asks, "1 ADD a", "1 BOOKMARK synced ready")
		expect(t, other, "1 ADD a", "1 BOOKMARK synced ready")
		p, e := died("a")
		j.HandlePodLifecycleEvent(ctx, p, e)
		frames := drain(asks)
		if got := show(j, frames); got != "2 PLEG a" {
			t.Fatalf("got %s", got)
		}
		var line bytes.Buffer
		if err := frames[0].WriteJSON(&line); err != nil {
			t.Fatal(err)
		}
		want := `"event":{"type":"ContainerDied","podUID":"a","containerID":"id","container":"c","exitCode":3}`
		if !strings.Contains(line.String(), want) {
			t.Errorf("%s does not have %s", line.String(), want)
		}
		expect(t, other)
		// Who comes back soon is told what there was meanwhile.
		asks.Close()
		j.HandlePodLifecycleEvent(ctx, p, e)
		since := frames[0].Revision
		back := j.Watch(WatchOptions{Ops: Operations{config.PLEG: true}, Since: &since})
		expect(t, back, "3 PLEG a")
		back.Close()
		time.Sleep(linger) //nolint:forbidigo // virtual time
		j.HandlePodLifecycleEvent(ctx, p, e)
		if j.head != since+1 {
			t.Errorf("an event that nobody asked for got revision %d", j.head-j.first)
		}
	})
}

func TestEventsAreSelectedByTheirPod(t *testing.T) {
	j := newJournal(Options{})
	a := j.Watch(WatchOptions{Ops: Operations{config.PLEG: true}, Selector: Selector{Fields: fields.OneTermEqualSelector("metadata.name", "a")}})
	defer a.Close()
	drain(a)
	for _, name := range []string{"a", "b"} {
		p, e := died(name)
		j.HandlePodLifecycleEvent(t.Context(), p, e)
	}
	frames := drain(a)
	if got := show(j, frames); got != "1 PLEG a" || frames[0].Event == nil {
		t.Errorf("got %s", got)
	}
}

func TestOrphansAreToldAtTheStartToo(t *testing.T) {
	j := newJournal(Options{})
	ops := Operations{config.HOUSEKEEPING: true}
	early := j.Watch(WatchOptions{Ops: ops})
	defer early.Close()
	expect(t, early, "0 BOOKMARK synced")
	j.HandlePodOrphans(t.Context(), []*v1.Pod{pod("x"), pod("y")})
	expect(t, early, "1 HOUSEKEEPING x y")
	late := j.Watch(WatchOptions{Ops: ops})
	defer late.Close()
	expect(t, late, "1 HOUSEKEEPING x y", "1 BOOKMARK synced")
	only := j.Watch(WatchOptions{Ops: ops, Selector: Selector{Fields: fields.OneTermEqualSelector("metadata.name", "y")}})
	defer only.Close()
	expect(t, only, "1 HOUSEKEEPING y", "1 BOOKMARK synced")
	j.HandlePodOrphans(t.Context(), nil)
	for _, c := range []*Cursor{early, late, only} {
		expect(t, c, "2 HOUSEKEEPING")
	}
	quiet := j.Watch(WatchOptions{})
	defer quiet.Close()
	expect(t, quiet, "2 BOOKMARK synced")
	if pods := j.State().Pods; len(pods) > 0 {
		t.Errorf("orphans count as present pods: %d", len(pods))
	}
}
