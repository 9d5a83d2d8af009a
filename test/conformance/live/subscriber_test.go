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
	"github.com/podconfigd/podconfigd/test/testutil"
)

// line is an update that a subscriber received.
type line struct {
	at     time.Duration
	update *v1alpha1.Update
}

func (l line) String() string {
	u := l.update
	text := fmt.Sprintf("%8.3f s  %s", l.at.Seconds(), u.Op)
	if u.Reset {
		text += " reset"
	}
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
			return
		}
		w.mu.Lock()
		w.saw = append(w.saw, line{time.Since(w.began), u})
		if u.Revision != 0 {
			w.last = u
		}
		if u.Reset {
			clear(w.has)
		}
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

// resumed returns what a subscriber sees that resumes after the last update of an earlier run, up to the first set of this one.
// It does not ask for PLEG, which nobody recorded in between.
func (w *world) resumed(t *testing.T, last *v1alpha1.Update) (lines []line) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	for u, err := range w.client.Updates(ctx, client.Options{Instance: last.Instance, Since: last.Revision, NoMirrorPods: true}) {
		if err != nil {
			t.Fatal(err)
		}
		at := time.Duration(0) // a BOOKMARK has no time
		if u.Time != nil {
			at = u.Time.Sub(w.began)
		}
		lines = append(lines, line{at, u})
		if u.Reset || u.Op == v1alpha1.OpBookmark && u.Sources["file"].Seen {
			break
		}
	}
	t.Logf("a subscriber that resumed saw:\n%s", text(lines))
	return lines
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

// noOrphans shows what the subscriber saw. HOUSEKEEPING names nothing, though the runtime still has sandboxes of pods under
// their former UIDs.
func (w *world) noOrphans(t *testing.T, theirs map[string]*v1.Pod) {
	t.Helper()
	lines := w.lines()
	for _, l := range lines {
		if l.update.Op == v1alpha1.OpHousekeeping && len(l.update.Pods) > 0 {
			t.Errorf("HOUSEKEEPING is not empty: %v", l)
		}
	}
	runtime, err := w.client.Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	former := slices.DeleteFunc(runtime.Pods, func(p v1alpha1.RuntimePod) bool { return p.UID == string(theirs[p.Name].UID) })
	t.Logf("HOUSEKEEPING does not name the sandboxes of %d pods under former UIDs", len(former))
	t.Logf("a subscriber saw:\n%s", text(lines))
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

// changed returns the pods whose UIDs differ, by the UID before and by the UID after.
func changed(before, after map[string]*v1.Pod) (removes, adds map[types.UID]string) {
	removes, adds = make(map[types.UID]string), make(map[types.UID]string)
	for name, pod := range after {
		if old := before[name]; old.UID != pod.UID {
			removes[old.UID], adds[pod.UID] = name, name
		}
	}
	return removes, adds
}

// oneSwitch checks that the pods changed their UIDs once, in one set.
func (w *world) oneSwitch(t *testing.T, before, after map[string]*v1.Pod, lines []line) {
	t.Helper()
	removes, adds := changed(before, after)
	if len(adds) != len(pods)-1 {
		t.Fatalf("%d UIDs differ", len(adds))
	}
	seen := make(map[v1alpha1.Op][]line)
	for _, l := range lines {
		seen[l.update.Op] = append(seen[l.update.Op], l)
	}
	for op, want := range map[v1alpha1.Op]map[types.UID]string{v1alpha1.OpRemove: removes, v1alpha1.OpAdd: adds} {
		if lines := seen[op]; len(lines) != 1 || !maps.Equal(uids(lines[0]), want) {
			t.Errorf("a subscriber saw %v, want one %s of %v", lines, op, want)
			continue
		}
		t.Logf("%s after %v", op, seen[op][0].at.Round(time.Millisecond))
	}
}

// cameToRun checks that the subscriber saw each pod start under its new UID.
func (w *world) cameToRun(t *testing.T, before, after map[string]*v1.Pod, lines []line) {
	t.Helper()
	_, adds := changed(before, after)
	ran, started := make(map[types.UID]string), make(map[types.UID]string)
	for _, l := range lines {
		u := l.update
		for _, pod := range u.Pods {
			switch {
			case adds[pod.UID] == "":
			case u.Op == v1alpha1.OpPLEG && u.Event.Type == "ContainerStarted":
				started[pod.UID] = pod.Name
			case pod.Status.Phase == v1.PodRunning: // by RECONCILE, or in the ADD of a machine that is slow
				ran[pod.UID] = pod.Name
			}
		}
	}
	if !maps.Equal(ran, adds) || !maps.Equal(started, adds) {
		t.Errorf("%v came to run, PLEG of %v, want both of %v", ran, started, adds)
	}
}

// text has a line for each.
func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

func uids(l line) map[types.UID]string {
	names := make(map[types.UID]string)
	for _, pod := range l.update.Pods {
		names[pod.UID] = pod.Name
	}
	return names
}
