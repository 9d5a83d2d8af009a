package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// in returns an update of pods, "namespace/name=image". The UID depends on the image.
func in(op config.PodOperation, contents ...string) config.PodUpdate {
	u := config.PodUpdate{Op: op, Source: "file"}
	for _, content := range contents {
		namespace, rest, _ := strings.Cut(content, "/")
		p := pod(rest)
		p.Namespace, p.UID = namespace, types.UID(content)
		u.Pods = append(u.Pods, p)
	}
	return u
}

// shownObjects returns the objects of a kind at a revision in short, with revisions
// relative to a base.
func shownObjects(t *testing.T, j *Journal, kind Kind, base, at int64) string {
	t.Helper()
	if at != 0 {
		at += base
	}
	objects, _, err := j.Objects(kind, at)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, o := range objects {
		s := fmt.Sprintf("%s@%d", o.Object.GetName(), o.Revision-base)
		if v := o.Object.GetLabels()["v"]; v != "" {
			s += "=" + v
		}
		shown = append(shown, s)
	}
	return strings.Join(shown, " ")
}

// A namespace begins with its first pod and ends with its last, at their revisions. It
// stays if all its pods are replaced in one set.
func TestNamespacesFollowThePods(t *testing.T) {
	j := newJournal(Options{})
	base := j.Revision()
	for _, step := range []struct {
		set  []config.PodUpdate
		want string
	}{
		{[]config.PodUpdate{in(config.ADD, "a/x=1", "b/x=1", "a/y=1")}, "a@3 b@2"},
		{[]config.PodUpdate{in(config.REMOVE, "a/x=1")}, "a@3 b@2"},
		{[]config.PodUpdate{in(config.REMOVE, "b/x=1", "a/y=1"), in(config.ADD, "b/x=2")}, "b@2"},
		{[]config.PodUpdate{in(config.ADD, "a/z=1")}, "a@9 b@2"},
	} {
		appendSet(j, step.set...)
		if got := shownObjects(t, j, Namespaces, base, 0); got != step.want {
			t.Errorf("at %d: got %q, want %q", j.Revision()-base, got, step.want)
		}
	}
	for at, want := range map[int64]string{1: "", 2: "", 3: "a@3 b@2", 5: "a@3 b@2", 7: "a@3 b@2", 8: "b@2"} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			if got := shownObjects(t, j, Namespaces, base, at); got != want {
				t.Errorf("at %d: got %q, want %q", at, got, want)
			}
		})
	}
	namespace, ok := j.Object(Namespaces, "b").Object.(*v1.Namespace)
	if !ok || namespace.Labels[v1.LabelMetadataName] != "b" || namespace.Status.Phase != v1.NamespaceActive {
		t.Errorf("the namespace b is %+v", namespace)
	}
}

// The metadata of a namespace waits for its first pod. A change of it, and of the node, has
// a revision of its own.
func TestMetadataOfNamespacesAndTheNode(t *testing.T) {
	node := func(v string, beat int64) *v1.Node {
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"v": v}, ResourceVersion: fmt.Sprint(beat)},
			Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, LastHeartbeatTime: metav1.Unix(beat, 0)}}},
		}
	}
	meta := func(v string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Name: "a", Labels: map[string]string{"v": v}}
	}
	j := newJournal(Options{Node: node("0", 0)})
	base := j.Revision()
	put := func(all ...*metav1.ObjectMeta) { j.PutNamespaces(all) }
	put(meta("1"))
	appendSet(j, in(config.ADD, "a/x=1"))
	put(meta("1"))
	j.PutNode(node("0", 1))
	if got := j.Revision() - base; got != 2 {
		t.Errorf("%d revisions without changes, want 2", got)
	}
	put(meta("2"))
	j.PutNode(node("1", 2))
	put()
	if got, want := shownObjects(t, j, Namespaces, base, 0)+" "+shownObjects(t, j, Nodes, base, 0), "a@5 node1@4=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for at, want := range map[int64]string{2: "a@1=1 node1@0=0", 3: "a@3=2 node1@0=0", 4: "a@3=2 node1@4=1"} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			if got := shownObjects(t, j, Namespaces, base, at) + " " + shownObjects(t, j, Nodes, base, at); got != want {
				t.Errorf("at %d: got %q, want %q", at, got, want)
			}
		})
	}
	gone := meta("3")
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	put(gone)
	if namespace, ok := j.Object(Namespaces, "a").Object.(*v1.Namespace); !ok || namespace.Status.Phase != v1.NamespaceTerminating {
		t.Errorf("a namespace with a deletionTimestamp is %+v", namespace)
	}
	if _, _, err := j.Objects(Nodes, base-1); err == nil {
		t.Error("the objects of an earlier instance are listed")
	}
}

// All metadata of namespaces are replaced: one that is not among them is gone, also of a namespace
// that has no pods here.
func TestAllMetadataOfNamespaces(t *testing.T) {
	meta := func(name, v string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Name: name, Labels: map[string]string{"v": v}}
	}
	j := newJournal(Options{})
	base := j.Revision()
	appendSet(j, in(config.ADD, "a/x=1", "b/x=1"))
	j.PutNamespaces([]*metav1.ObjectMeta{meta("a", "1"), meta("b", "1"), meta("c", "1")})
	j.PutNamespaces([]*metav1.ObjectMeta{meta("a", "1")})
	appendSet(j, in(config.ADD, "c/x=1"))
	if got, want := shownObjects(t, j, Namespaces, base, 0), "a@4=1 b@6 c@7"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
