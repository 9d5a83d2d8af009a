package apiserver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// history is the current and past state of an apiserver.
type history struct {
	// writer distinguishes the writes of two histories, like the time in managedFields.
	writer  string
	version int
	pods    map[string]*v1.Pod
	events  []watch.Event
}

// write makes random writes, of pods and of other things.
func (h *history) write(random *rand.Rand, most int) {
	for range random.IntN(most + 1) {
		h.version++
		name := []string{"a", "b", "c"}[random.IntN(3)]
		old, exists := h.pods[name]
		switch []string{"another object", "put", "put", "delete"}[random.IntN(4)] {
		case "put":
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprint(name, h.writer, h.version))}}
			kind := watch.Added
			if exists {
				pod, kind = old.DeepCopy(), watch.Modified
			}
			pod.ResourceVersion = strconv.Itoa(h.version)
			pod.Status.Message = fmt.Sprint(h.writer, h.version)
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: h.writer}}
			h.pods[name] = pod
			h.events = append(h.events, watch.Event{Type: kind, Object: pod})
		case "delete":
			if exists {
				delete(h.pods, name)
				pod := old.DeepCopy()
				pod.ResourceVersion = strconv.Itoa(h.version)
				h.events = append(h.events, watch.Event{Type: watch.Deleted, Object: pod})
			}
		}
	}
}

// fork returns a history that continues from here.
func (h *history) fork(writer string) *history {
	return &history{writer: writer, version: h.version, pods: maps.Clone(h.pods), events: slices.Clip(h.events)}
}

// list returns the metadata of its pods, and the version.
func (h *history) list() (pods []*metav1.ObjectMeta, version string) {
	for _, pod := range h.pods {
		pods = append(pods, pod.ObjectMeta.DeepCopy())
	}
	return pods, strconv.Itoa(h.version)
}

// watch applies the events since a version to a store.
func (h *history) watch(t *testing.T, s *store, from string) {
	t.Helper()
	since, err := strconv.Atoi(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range h.events {
		pod := event.Object.(*v1.Pod).DeepCopy()
		if version, _ := strconv.Atoi(pod.ResourceVersion); version <= since {
			continue
		}
		switch event.Type {
		case watch.Added:
			err = s.Add(pod)
		case watch.Modified:
			err = s.Update(pod)
		case watch.Deleted:
			err = s.Delete(pod)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// For any list - from later or earlier in the same history, or from another history with
// a common start - a watch that resumes makes the store equal to the apiserver.
func TestResume(t *testing.T) {
	resumed, listed := 0, 0
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same each time
		// 9 and 10 have the opposite order as text.
		base := &history{writer: "base", version: 8, pods: make(map[string]*v1.Pod)}
		base.write(random, 4)
		old := base.fork("old")
		old.write(random, 4)
		s := newStore(false, func([]any) {})
		var pods []any
		for _, pod := range old.pods {
			pods = append(pods, pod.DeepCopy())
		}
		at := strconv.Itoa(old.version)
		if err := s.Replace(pods, at); err != nil {
			t.Fatal(err)
		}

		now := old
		if random.IntN(2) == 0 {
			now = base.fork("now")
		}
		now.write(random, 8)
		list, version := now.list()
		now.write(random, 4)
		from, ok := s.resume(list, version, at)
		if !ok {
			listed++
			continue
		}
		resumed++
		now.watch(t, s, from)
		if len(s.List()) != len(now.pods) {
			t.Fatalf("seed %d: %d pods, want %d", seed, len(s.List()), len(now.pods))
		}
		for name, want := range now.pods {
			object, _, _ := s.GetByKey(name)
			if pod, ok := object.(*v1.Pod); !ok || pod.UID != want.UID || pod.Status.Message != want.Status.Message {
				t.Fatalf("seed %d: %s is %v, want %v", seed, name, object, want)
			}
		}
	}
	t.Logf("%d times a watch went on, %d times all was to be listed", resumed, listed)
	if resumed < 100 || listed < 100 {
		t.Error("one of them is not tested")
	}
}

// If only other objects changed, a watch resumes from the list's version. The same if the
// list is from a cache that is behind.
func TestResumeWhereNothingChanged(t *testing.T) {
	h := &history{writer: "w", version: 8, pods: make(map[string]*v1.Pod)}
	h.write(rand.New(rand.NewPCG(1, 0)), 20) //nolint:gosec // the same each time
	for _, version := range []int{h.version - 1, h.version, h.version + 5} {
		s := newStore(false, func([]any) {})
		for _, pod := range h.pods {
			if err := s.Add(pod.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		list, _ := h.list()
		if from, ok := s.resume(list, strconv.Itoa(version), strconv.Itoa(h.version)); !ok || from != strconv.Itoa(version) {
			t.Errorf("of a list at %d: %q, %t", version, from, ok)
		}
	}
}

// Equal pods of a list keep their pointers. Pods with the same UID and resourceVersion
// that are not equal are replaced.
func TestReplaceComparesPods(t *testing.T) {
	s := newStore(false, func([]any) {})
	list := func(message string) []any {
		var all []any
		for _, name := range []string{"same", "other"} {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
			if name == "other" {
				pod.Status.Message = message
			}
			all = append(all, pod)
		}
		return all
	}
	replace := func(message string) (same, other any) {
		if err := s.Replace(list(message), "7"); err != nil {
			t.Fatal(err)
		}
		same, _, _ = s.GetByKey("same")
		other, _, _ = s.GetByKey("other")
		return same, other
	}
	same, other := replace("one")
	again, changed := replace("two")
	if same != again || other == changed {
		t.Errorf("the same pointer for what is equal %t, for what is not %t", same == again, other == changed)
	}
}

// A mirror pod of podconfigd whose status a kubelet has written is marked: its status counts then. Others keep
// their annotations.
func TestAnAdoptedMirrorPodIsMarked(t *testing.T) {
	for name, test := range map[string]struct{ manager, subresource, own, want string }{
		"kubelet's status":     {"kubelet", "status", "true", config.AdoptedMirror},
		"status of podconfigd": {"podconfigd", "status", "true", "true"},
		"no status":            {"kubelet", "", "true", "true"},
		"not ours":             {"kubelet", "status", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keep := range []bool{true, false} {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{}, ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: test.manager, Subresource: test.subresource},
				}}}
				if test.own != "" {
					pod.Annotations[config.OwnMirrorAnnotationKey] = test.own
				}
				newStore(keep, func([]any) {}).take(pod)
				if got := pod.Annotations[config.OwnMirrorAnnotationKey]; got != test.want || len(pod.ManagedFields) > 0 != keep {
					t.Errorf("%+v: the annotation is %q, %d managedFields", test, got, len(pod.ManagedFields))
				}
			}
		})
	}
}

// An event has the time at which it arrived, also if the next one arrives before it is stored. An
// event that waited while the earlier one was handed on counts from that moment.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a arrivals
		first, second, third := new(int), new(int), new(int)
		start := time.Now()
		idle := start
		<-time.After(time.Second)
		a.event(first, a.received(idle))
		<-time.After(time.Second) // handed on
		a.event(second, a.received(time.Now()))
		if at := a.of(first); at.Sub(start) != time.Second {
			t.Errorf("the first arrived after %v", at.Sub(start))
		}
		idle = time.Now()
		<-time.After(time.Second)
		a.event(third, a.received(idle))
		if at := a.of(third); at.Sub(start) != 3*time.Second {
			t.Errorf("the third arrived after %v", at.Sub(start))
		}
		if at := a.of(second); !at.IsZero() {
			t.Errorf("an event before one that was stored is kept: %v", at)
		}
		a.listed(time.Now())
		if at := a.ofList(); at.Sub(start) != 3*time.Second {
			t.Errorf("the list arrived after %v", at.Sub(start))
		}
		for range 2 * maxArrivals {
			a.event(new(int), time.Now())
		}
		if n := len(a.waiting); n > maxArrivals {
			t.Errorf("%d events are kept", n)
		}
	})
}
