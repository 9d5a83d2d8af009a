package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// pod returns a pod with the name and UID, changed by the functions.
func pod(name, uid string, change ...func(*v1.Pod)) *v1.Pod {
	return podtest.Pod(name+"=image:1", append([]func(*v1.Pod){podtest.UID(uid)}, change...)...)
}

func image(image string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Image = image }
}

func phase(phase v1.PodPhase) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Status.Phase = phase }
}

func annotation(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Annotations = map[string]string{key: value}
	}
}

func label(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels = map[string]string{key: value} }
}

func deleting(p *v1.Pod) {
	grace := int64(30)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1000, 0)}, &grace
}

// summary returns the updates in short: "ADD a b; REMOVE c".
func summary(updates []PodUpdate) string {
	var parts []string
	for i, u := range updates {
		if u.More != (i < len(updates)-1) {
			return fmt.Sprintf("update %d of %d has More %t", i, len(updates), u.More)
		}
		part := u.Op.String()
		for _, p := range u.Pods {
			part += " " + p.Name
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func TestMergeEmitsWhatTheKubeletDoes(t *testing.T) {
	type set []*v1.Pod
	for _, test := range []struct {
		name string
		sets []set
		want []string
	}{
		{"first empty set", []set{{}, {}}, []string{"ADD", ""}},
		{"add", []set{{pod("a", "1")}, {pod("a", "1"), pod("b", "2")}}, []string{"ADD a", "ADD b"}},
		{"order of pods", []set{{pod("c", "3"), pod("a", "1"), pod("b", "2")}}, []string{"ADD a b c"}},
		{"remove", []set{{pod("a", "1"), pod("b", "2")}, {pod("b", "2")}, {}}, []string{"ADD a b", "REMOVE a", "REMOVE b"}},
		{"same content", []set{{pod("a", "1")}, {pod("a", "1")}}, []string{"ADD a", ""}},
		{"update of the spec", []set{{pod("a", "1")}, {pod("a", "1", image("2"))}}, []string{"ADD a", "UPDATE a"}},
		{"update of labels", []set{{pod("a", "1")}, {pod("a", "1", label("k", "v"))}}, []string{"ADD a", "UPDATE a"}},
		{"update of an annotation", []set{{pod("a", "1")}, {pod("a", "1", annotation("k", "v"))}}, []string{"ADD a", "UPDATE a"}},
		{"annotation taken away", []set{{pod("a", "1", annotation("k", "v"))}, {pod("a", "1")}}, []string{"ADD a", "UPDATE a"}},
		{
			"local annotations are no update",
			[]set{{pod("a", "1")}, {pod("a", "1", annotation(ConfigFirstSeenAnnotationKey, "x"))}, {pod("a", "1", annotation(ConfigSourceAnnotationKey, "x"))}},
			[]string{"ADD a", "", ""},
		},
		{"status only", []set{{pod("a", "1")}, {pod("a", "1", phase(v1.PodRunning))}}, []string{"ADD a", "RECONCILE a"}},
		{"graceful deletion", []set{{pod("a", "1")}, {pod("a", "1", deleting)}, {}}, []string{"ADD a", "DELETE a", "REMOVE a"}},
		{"first seen while being deleted", []set{{pod("a", "1", deleting)}}, []string{"ADD a"}},
		{"all at once", []set{
			{pod("gone", "1"), pod("kept", "2"), pod("new", "3"), pod("dying", "4"), pod("running", "5")},
			{pod("kept", "2"), pod("new", "3", image("2")), pod("dying", "4", deleting), pod("running", "5", phase(v1.PodRunning)), pod("added", "6")},
		}, []string{"ADD dying gone kept new running", "REMOVE gone; ADD added; UPDATE new; DELETE dying; RECONCILE running"}},
		{"another UID under the same name", []set{{pod("a", "1")}, {pod("a", "2")}}, []string{"ADD a", "REMOVE a; ADD a"}},
		{"the first of a name counts", []set{{pod("a", "1"), pod("a", "2")}, {pod("a", "2"), pod("a", "1")}}, []string{"ADD a", "REMOVE a; ADD a"}},
		{"one UID twice", []set{{pod("a", "1"), pod("b", "1")}, {pod("b", "1")}}, []string{"ADD a b", ""}},
		{"swapped names", []set{{pod("a", "1"), pod("b", "2")}, {pod("b", "1"), pod("a", "2")}}, []string{"ADD a b", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			storage := newPodStorage()
			for i, set := range test.sets {
				if got := summary(storage.merge("file", set).podUpdates("file", &SourceSet{})); got != test.want[i] {
					t.Errorf("set %d: got %q, want %q", i, got, test.want[i])
				}
			}
		})
	}
}

func TestMergeKeepsSourcesApart(t *testing.T) {
	storage := newPodStorage()
	storage.merge("file", []*v1.Pod{pod("a", "1")})
	if got := summary(storage.merge("api", []*v1.Pod{pod("a", "1")}).podUpdates("api", &SourceSet{})); got != "ADD a" {
		t.Errorf("the same pod from another source: got %q, want an ADD", got)
	}
	if got := summary(storage.merge("file", nil).podUpdates("file", &SourceSet{})); got != "REMOVE a" {
		t.Errorf("an empty set: got %q, want a REMOVE", got)
	}
}

func TestMergeCarriesAnnotations(t *testing.T) {
	storage := newPodStorage()
	storage.now = func() time.Time { return time.Unix(1, 2).UTC() }
	first := storage.merge("file", []*v1.Pod{pod("a", "1", annotation("k", "1"))}).podUpdates("file", &SourceSet{})
	want := map[string]string{"k": "1", ConfigSourceAnnotationKey: "file", ConfigFirstSeenAnnotationKey: "1970-01-01T00:00:01.000000002Z"}
	if diff := cmp.Diff(want, first[0].Pods[0].Annotations); diff != "" {
		t.Errorf("annotations of an ADD (-want +got):\n%s", diff)
	}
	storage.now = time.Now
	second := storage.merge("file", []*v1.Pod{pod("a", "1", annotation("k", "2"), image("2"))}).podUpdates("file", &SourceSet{})
	want["k"] = "2"
	if diff := cmp.Diff(want, second[0].Pods[0].Annotations); diff != "" {
		t.Errorf("annotations of an UPDATE (-want +got):\n%s", diff)
	}
}

// The merge changes neither the pods of the source nor the emitted pods.
func TestMergeWritesIntoNothing(t *testing.T) {
	storage := newPodStorage()
	versions := []*v1.Pod{
		pod("a", "1", annotation("k", "1")), pod("a", "1", phase(v1.PodRunning), annotation("k", "1")),
		pod("a", "1", image("2")), pod("a", "1", image("2"), deleting),
	}
	var sent, emitted []*v1.Pod
	var emittedCopies []*v1.Pod
	for _, version := range versions {
		sent = append(sent, version.DeepCopy())
		for _, u := range storage.merge("file", []*v1.Pod{version}).podUpdates("file", &SourceSet{}) {
			for _, p := range u.Pods {
				emitted, emittedCopies = append(emitted, p), append(emittedCopies, p.DeepCopy())
			}
		}
	}
	if diff := cmp.Diff(sent, versions); diff != "" {
		t.Errorf("the source's pods changed (-sent +now):\n%s", diff)
	}
	if diff := cmp.Diff(emittedCopies, emitted); diff != "" {
		t.Errorf("emitted pods changed later (-emitted +now):\n%s", diff)
	}
}

// A pod with a known pointer is not compared again, in any order of the set. So a change
// in place, which is not allowed, is not detected.
func TestMergeDoesNotCompareKnownPointers(t *testing.T) {
	storage := newPodStorage()
	a, b := pod("a", "1"), pod("b", "2")
	storage.merge("file", []*v1.Pod{a, b})
	a.Spec.Containers[0].Image = "changed in place"
	if got := summary(storage.merge("file", []*v1.Pod{pod("b", "2", image("2")), a}).podUpdates("file", &SourceSet{})); got != "UPDATE b" {
		t.Errorf("got %q, want UPDATE b alone", got)
	}
}

func TestMergeCostFollowsTheChange(t *testing.T) {
	for _, size := range []int{110, 500, 5000} {
		storage := newPodStorage()
		set := make([]*v1.Pod, size)
		for i := range set {
			set[i] = pod(fmt.Sprint("pod-", i), fmt.Sprint(i))
		}
		storage.merge("file", set)
		const which = 100
		versions := [2]*v1.Pod{set[which].DeepCopy(), set[which].DeepCopy()}
		image("2")(versions[0])
		image("3")(versions[1])
		turn := 0
		allocs := testing.AllocsPerRun(100, func() {
			next := slices.Clone(set)
			slices.Reverse(next[which+1:]) // the order does not matter
			next[which] = versions[turn%2]
			turn++
			if u := storage.merge("file", next).podUpdates("file", &SourceSet{}); len(u) != 1 || u[0].Op != UPDATE {
				t.Fatalf("got %v, want one UPDATE", summary(u))
			}
		})
		if allocs > 60 {
			t.Errorf("one changed pod of %d took %.0f allocations, want no more than 60", size, allocs)
		}
	}
}

// model is the shortest possible merge: the same result as the kubelet's, without regard
// to cost.
type model struct {
	known map[types.UID]*v1.Pod
	seen  bool
}

func (m *model) merge(set []*v1.Pod) string {
	groups := map[PodOperation][]string{}
	next, names := map[types.UID]*v1.Pod{}, map[string]bool{}
	first := !m.seen
	m.seen = true
	for _, ref := range set {
		if names[ref.Namespace+"/"+ref.Name] {
			continue
		}
		names[ref.Namespace+"/"+ref.Name] = true
		was := m.known[ref.UID]
		if was == nil {
			groups[ADD] = append(groups[ADD], ref.Name)
			next[ref.UID] = ref.DeepCopy()
			continue
		}
		next[ref.UID] = was
		op, differs := UPDATE, podsDifferSemantically(was, ref)
		if ref.DeletionTimestamp != nil {
			op = DELETE
		}
		if !differs {
			if was.Status.Phase == ref.Status.Phase {
				continue
			}
			op = RECONCILE
		}
		name := was.Name
		*was = *ref.DeepCopy()
		was.Name = name
		groups[op] = append(groups[op], name)
	}
	for uid, was := range m.known {
		if next[uid] == nil {
			groups[REMOVE] = append(groups[REMOVE], was.Name)
		}
	}
	m.known = next
	var parts []string
	for _, op := range []PodOperation{REMOVE, ADD, UPDATE, DELETE, RECONCILE} {
		slices.Sort(groups[op])
		if names := groups[op]; len(names) > 0 {
			parts = append(parts, op.String()+" "+strings.Join(names, " "))
		}
		if op == DELETE && first && len(groups[ADD])+len(groups[UPDATE])+len(groups[DELETE]) == 0 {
			parts = append(parts, "ADD")
		}
	}
	return strings.Join(parts, "; ")
}

// FuzzMerge compares the merge with the model. Each pair of bytes is a pod of the next
// set. A zero ends a set.
func FuzzMerge(f *testing.F) {
	f.Add([]byte{1, 1, 2, 2, 0, 1, 17, 2, 2, 0, 0})
	f.Add([]byte{1, 1, 1, 2, 0, 1, 2, 1, 1, 0})
	f.Add([]byte{1, 1, 2, 1, 0, 2, 33, 0, 3, 65, 3, 1, 0})
	f.Add([]byte{0, 0, 5, 5, 0, 5, 21, 0, 5, 37, 0, 5, 69, 0, 5, 133, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		storage, m := newPodStorage(), &model{known: map[types.UID]*v1.Pod{}}
		// The same bytes give the same pointer, to test both paths.
		pods := map[[2]byte]*v1.Pod{}
		var set []*v1.Pod
		for len(data) > 1 {
			if data[0] == 0 {
				if p := storage.sources["file"]; p != nil { // a set that is held leaves no trace
					p.removals(set[:len(set)/2])
					p.removals(set)
				}
				want := m.merge(set)
				updates := storage.merge("file", set).podUpdates("file", &SourceSet{Pods: set, Files: filesFor(set)})
				for _, u := range updates {
					checkOrder(t, storage.sources["file"], u)
					checkFiles(t, u)
					slices.SortFunc(u.Pods, ComparePods) // the order of the model
				}
				if got := summary(updates); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
				checkIndexes(t, storage.sources["file"])
				set, data = nil, data[1:]
				continue
			}
			key := [2]byte(data[:2])
			if pods[key] == nil {
				pods[key] = fuzzPod(key)
			}
			set, data = append(set, pods[key]), data[2:]
		}
	})
}

// filesFor returns the files of the pods of a set.
func filesFor(set []*v1.Pod) []*File {
	files := make([]*File, len(set))
	for i, pod := range set {
		files[i] = &File{Path: string(pod.UID)}
	}
	return files
}

// checkFiles checks that each pod of an update has its file, unless it was removed.
func checkFiles(t *testing.T, u PodUpdate) {
	t.Helper()
	for i, pod := range u.Pods {
		switch file := u.Files[i]; {
		case u.Op == REMOVE && file != nil:
			t.Errorf("the pod %s was removed, and has the file %s", pod.Name, file.Path)
		case u.Op != REMOVE && (file == nil || file.Path != string(pod.UID)):
			t.Errorf("the pod %s with the UID %s has the file %v", pod.Name, pod.UID, file)
		}
	}
}

// checkOrder checks the order of an update's pods, which only a duplicate UID may break.
// The last pod of each UID must be the stored one.
func checkOrder(t *testing.T, p *sourcePods, u PodUpdate) {
	t.Helper()
	last := make(map[types.UID]*v1.Pod)
	for _, pod := range u.Pods {
		last[pod.UID] = pod
	}
	if len(last) == len(u.Pods) && !slices.IsSortedFunc(u.Pods, ComparePods) {
		t.Errorf("%v is not in order", summary([]PodUpdate{u}))
	}
	for uid, pod := range last {
		if u.Op == ADD && p.byUID[uid].pod != pod {
			t.Errorf("of the pods of UID %s in an ADD, %s comes last and %s is kept", uid, pod.Name, p.byUID[uid].pod.Name)
		}
	}
}

// fuzzPod makes a pod: the first byte is the name, the second the UID and the content.
func fuzzPod(key [2]byte) *v1.Pod {
	p := pod(fmt.Sprintf("%03d", key[0]%8), fmt.Sprint(key[1]&7))
	for i, change := range []func(*v1.Pod){image("2"), phase(v1.PodRunning), label("k", "v"), deleting, annotation("k", "v")} {
		if key[1]&(8<<i) != 0 {
			change(p)
		}
	}
	return p
}

// checkIndexes compares the indexes of a source, and its last set.
func checkIndexes(t *testing.T, p *sourcePods) {
	t.Helper()
	if len(p.last) != len(p.byUID) || len(p.byName) != len(p.byUID) {
		t.Fatalf("%d in the last set, %d by UID, %d by name", len(p.last), len(p.byUID), len(p.byName))
	}
	for _, ref := range p.last {
		if entry := p.byUID[ref.UID]; entry.ref != ref || entry.next != ref || p.byName[nameOf(ref)] != entry {
			t.Fatalf("pod %s is not found by its UID and name", ref.Name)
		}
	}
}
