package live

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
)

// line is an update that a subscriber received.
type line struct {
	at     time.Duration
	update *v1alpha1.Update
}

func (l line) String() string {
	u := l.update
	text := fmt.Sprintf("%8.3f s  %s", l.at.Seconds(), u.Op)
	if u.Restored {
		text += " restored"
	}
	if u.Event != nil {
		text += fmt.Sprintf(" %s %s", u.Event.Type, u.Event.Container)
	}
	pods := make([]string, 0, len(u.Pods))
	for _, pod := range u.Pods {
		pods = append(pods, strings.TrimSpace(fmt.Sprintf("%s %.8s %s", pod.Name, pod.UID, pod.Status.Phase)))
	}
	slices.Sort(pods)
	return text + " " + strings.Join(pods, ", ")
}

// subscribe notes what a subscriber sees.
func (w *world) subscribe(ctx context.Context) {
	defer close(w.ended)
	for u, err := range w.client.Updates(ctx, client.Options{Ops: ops, NoMirrorPods: true}) {
		if err != nil {
			continue // until the socket is there
		}
		w.mu.Lock()
		w.saw = append(w.saw, line{time.Since(w.began), u})
		for _, pod := range u.Pods {
			switch u.Op {
			case v1alpha1.OpAdd, v1alpha1.OpUpdate, v1alpha1.OpReconcile:
				w.has[pod.UID] = pod
			case v1alpha1.OpRemove:
				delete(w.has, pod.UID)
			}
		}
		w.mu.Unlock()
	}
}

// begin starts to count the time and the lines.
func (w *world) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.saw = time.Now(), nil
}

// lines returns what the subscriber saw since begin.
func (w *world) lines() []line {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.saw)
}

// noOrphans shows what the subscriber saw. HOUSEKEEPING names nothing.
func (w *world) noOrphans(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for _, l := range w.lines() {
		text.WriteString(l.String() + "\n")
		if l.update.Op == v1alpha1.OpHousekeeping && len(l.update.Pods) > 0 {
			t.Errorf("HOUSEKEEPING is not empty: %v", l)
		}
	}
	t.Logf("a subscriber saw:\n%s", text.String())
}

// subscriberHas compares the pods that the subscriber has.
func (w *world) subscriberHas(theirs map[string]*v1.Pod) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pod := range theirs {
		if has := w.has[pod.UID]; has == nil || has.Name != pod.Name || has.Status.Phase != v1.PodRunning {
			return fmt.Errorf("the subscriber has no %s %s that runs", pod.Name, pod.UID)
		}
	}
	if len(w.has) != len(theirs) {
		return fmt.Errorf("the subscriber has %d pods, the kubelet %d", len(w.has), len(theirs))
	}
	return nil
}

// oneSwitch checks that the pods changed their UIDs once, in one set, and that each came to run under its new one.
func (w *world) oneSwitch(t *testing.T, before, after map[string]*v1.Pod) {
	t.Helper()
	removes, adds := make(map[types.UID]string), make(map[types.UID]string)
	for name, pod := range after {
		if old := before[name]; old.UID != pod.UID {
			removes[old.UID], adds[pod.UID] = name, name
		}
	}
	if len(adds) != len(pods)-1 {
		t.Fatalf("%d UIDs differ", len(adds))
	}
	seen := make(map[v1alpha1.Op][]line)
	reconciled, started := make(map[types.UID]string), make(map[types.UID]string)
	for _, l := range w.lines() {
		u := l.update
		seen[u.Op] = append(seen[u.Op], l)
		for _, pod := range u.Pods {
			switch {
			case adds[pod.UID] == "":
			case u.Op == v1alpha1.OpReconcile && pod.Status.Phase == v1.PodRunning:
				reconciled[pod.UID] = pod.Name
			case u.Op == v1alpha1.OpPLEG && u.Event.Type == "ContainerStarted":
				started[pod.UID] = pod.Name
			}
		}
	}
	for op, want := range map[v1alpha1.Op]map[types.UID]string{v1alpha1.OpRemove: removes, v1alpha1.OpAdd: adds} {
		if lines := seen[op]; len(lines) != 1 || !maps.Equal(uids(lines[0]), want) {
			t.Errorf("the subscriber saw %v, want one %s of %v", lines, op, want)
			continue
		}
		t.Logf("%s after %v", op, seen[op][0].at.Round(time.Millisecond))
	}
	if !maps.Equal(reconciled, adds) || !maps.Equal(started, adds) {
		t.Errorf("RECONCILE of %v, PLEG of %v, want both of %v", reconciled, started, adds)
	}
}

func uids(l line) map[types.UID]string {
	names := make(map[types.UID]string)
	for _, pod := range l.update.Pods {
		names[pod.UID] = pod.Name
	}
	return names
}
