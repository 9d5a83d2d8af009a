package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// told returns the operations of frames, with the labels of namespaces and of the node.
func told(frames []*Frame) (all []string) {
	for _, f := range frames {
		if f.Op == config.BOOKMARK && !f.Reset && !f.InitialSyncComplete {
			continue // of progress
		}
		s := f.Op.String()
		if f.Reset {
			s = "RESET"
		}
		if f.Node != nil {
			s += " node=" + f.Node.Labels["zone"]
		}
		for _, name := range slices.Sorted(maps.Keys(f.Namespaces)) {
			m := f.Namespaces[name]
			s += fmt.Sprintf(" %s=%s%s", name, m.Labels["team"], map[bool]string{true: "removed"}[m.Removed])
		}
		all = append(all, s)
	}
	return all
}

func TestMetadata(t *testing.T) {
	j := newJournal(journal.Options{})
	team := func(of ...string) {
		var all []*metav1.ObjectMeta
		for i := 0; i < len(of); i += 2 {
			all = append(all, &metav1.ObjectMeta{Name: of[i], Labels: map[string]string{"team": of[i+1]}})
		}
		j.PutNamespaces(all)
	}
	zone := func(name string, images ...v1.ContainerImage) {
		j.PutNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"zone": name}}, Status: v1.NodeStatus{Images: images},
		})
	}
	expect := func(c *testCursor, want ...string) {
		t.Helper()
		if got := told(c.drain()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	team("default", "a", "kube-system", "b")
	zone("x")
	j.Append(update(config.ADD, "web=1"))
	without := j.watch(StreamOptions{})
	both := j.watch(StreamOptions{NamespaceLabels: true, NodeLabels: true})
	sets := j.watch(StreamOptions{NamespaceLabels: true, Mode: SnapshotMode})
	node := j.watch(StreamOptions{NodeLabels: true})
	other := j.watch(StreamOptions{NamespaceLabels: true, Options: Options{Selector: Selector{Namespace: "kube-system"}}})
	expect(without, "ADD", "BOOKMARK")
	expect(both, "METADATA node=x", "METADATA default=a", "ADD", "BOOKMARK")
	expect(sets, "METADATA default=a", "SET", "BOOKMARK")
	expect(node, "METADATA node=x", "ADD", "BOOKMARK")
	expect(other, "BOOKMARK")
	since := j.Revision()

	// A change is a line of its own. What is no label or annotation changes nothing.
	team("default", "c", "kube-system", "d")
	zone("x", v1.ContainerImage{Names: []string{"busybox"}})
	expect(without)
	expect(both, "METADATA default=c")
	expect(sets, "METADATA default=c")
	expect(node)
	zone("y")
	expect(both, "METADATA node=y")
	expect(node, "METADATA node=y")

	// A namespace comes before its first pod, and is removed after its last.
	dns := update(config.ADD, "dns=1")
	dns.Pods[0].Namespace = "kube-system"
	j.Append(dns)
	expect(both, "METADATA kube-system=d", "ADD")
	expect(sets, "METADATA kube-system=d", "SET")
	expect(other, "METADATA kube-system=d", "ADD")
	expect(node, "ADD")
	dns.Op = config.REMOVE
	j.Append(dns)
	expect(both, "REMOVE", "METADATA kube-system=removed")
	expect(other, "REMOVE", "METADATA kube-system=removed")

	// A subscriber that starts again forgot all.
	both.open("it fell behind")
	expect(both, "RESET", "METADATA node=y", "METADATA default=c", "ADD", "BOOKMARK")

	// After a resume, all comes again: a subscriber can have missed changes, also those before a restart.
	expect(j.watch(StreamOptions{NamespaceLabels: true, NodeLabels: true, Since: &since}), "METADATA node=y default=c", "ADD", "REMOVE")
	future := since + 1000
	expect(j.watch(StreamOptions{NamespaceLabels: true, Since: &future}), "RESET", "METADATA default=c", "ADD", "BOOKMARK")
}

// A client with access rules gets the namespaces in which it sees a pod, as long as it sees one.
func TestMetadataUnderAccessRules(t *testing.T) {
	j := newJournal(journal.Options{})
	team := func(name string) {
		j.PutNamespaces([]*metav1.ObjectMeta{
			{Name: "default", Labels: map[string]string{"team": name}}, {Name: "kube-system", Labels: map[string]string{"team": name}},
		})
	}
	team("a")
	dns := update(config.ADD, "dns=blue")
	dns.Pods[0].Namespace = "kube-system"
	j.Append(dns)
	j.Append(update(config.ADD, "web=red", "db=blue"))
	c := j.through(t, j.gate(rule(t, access.Full, "image=red")), StreamOptions{NamespaceLabels: true})
	expect := func(want ...string) {
		t.Helper()
		if got := told(c.drain()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("METADATA default=a", "ADD", "BOOKMARK")
	team("b")
	expect("METADATA default=b")
	j.Append(update(config.UPDATE, "web=blue"))
	expect("REMOVE", "METADATA default=removed")
	team("c")
	expect()
	j.Append(update(config.UPDATE, "web=red"))
	expect("METADATA default=c", "ADD")
}

// A client that sees no pod any more by new access rules does not get the node either.
func TestMetadataWithoutPods(t *testing.T) {
	j := newJournal(journal.Options{})
	zone := func(name string) {
		j.PutNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"zone": name}}})
	}
	zone("x")
	j.Append(update(config.ADD, "web=1"))
	gate := j.gate(rule(t, access.Metadata, ""))
	c := j.through(t, gate, StreamOptions{NamespaceLabels: true, NodeLabels: true})
	expect := func(want ...string) {
		t.Helper()
		if got := told(c.all(t)); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("METADATA node=x", "METADATA default=", "ADD", "BOOKMARK")
	gate.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.None, "")}))
	expect("RESET", "BOOKMARK")
	zone("y")
	expect()
	gate.SetPolicy(access.NewPolicy([]access.Rule{rule(t, access.Metadata, "")}))
	expect("RESET", "METADATA node=y", "METADATA default=", "ADD", "BOOKMARK")
}

// Many large namespaces come in several lines, each before the pods that need it.
func TestMetadataInPieces(t *testing.T) {
	j := newJournal(journal.Options{MaxBytes: 1 << 30})
	var metas []*metav1.ObjectMeta
	u := config.PodUpdate{Op: config.ADD, Source: "file"}
	for i := range 60 {
		p := pod("web=1")
		p.Namespace, p.UID = fmt.Sprintf("ns%02d", i), types.UID(fmt.Sprint(i))
		metas = append(metas, &metav1.ObjectMeta{Name: p.Namespace, Annotations: map[string]string{"a": strings.Repeat("a", PieceSize/4)}})
		u.Pods = append(u.Pods, p)
	}
	j.PutNamespaces(metas)
	j.Append(u)
	known := make(map[string]bool)
	for _, f := range j.watch(StreamOptions{NamespaceLabels: true}).drain() {
		if f.size > 2*PieceSize {
			t.Errorf("a line has %d bytes", f.size)
		}
		for name, m := range f.Namespaces {
			if known[name] || len(m.Annotations["a"]) != PieceSize/4 {
				t.Errorf("%s came again, or without its annotation", name)
			}
			known[name] = true
		}
		for _, p := range f.Pods {
			if !known[p.Object.Namespace] {
				t.Errorf("the pod of %s came before its namespace", p.Object.Namespace)
			}
		}
	}
	if len(known) != len(metas) {
		t.Errorf("got %d namespaces", len(known))
	}
}

// Also a subscriber that resumes, or one for which many namespaces changed, gets about BatchSize at a time.
func TestMetadataInBatches(t *testing.T) {
	j := newJournal(journal.Options{MaxBytes: 1 << 30})
	var metas []*metav1.ObjectMeta
	u := config.PodUpdate{Op: config.ADD, Source: "file"}
	for i := range 60 {
		p := pod("web=1")
		p.Namespace, p.UID = fmt.Sprintf("ns%02d", i), types.UID(fmt.Sprint(i))
		metas = append(metas, &metav1.ObjectMeta{Name: p.Namespace, Annotations: map[string]string{"a": strings.Repeat("a", PieceSize)}})
		u.Pods = append(u.Pods, p)
	}
	j.PutNamespaces(metas)
	j.Append(u)
	c := j.watch(StreamOptions{NamespaceLabels: true, Since: new(j.Revision())})
	expect := func() {
		t.Helper()
		got := 0
		for got < len(metas) {
			size := 0
			for _, f := range next(t, c) {
				got += len(f.Namespaces)
				size += f.size
			}
			if size > BatchSize+2*PieceSize {
				t.Errorf("%d bytes at a time", size)
			}
		}
	}
	expect()
	for i, m := range metas {
		metas[i] = &metav1.ObjectMeta{Name: m.Name, Annotations: map[string]string{"a": strings.Repeat("b", PieceSize)}}
	}
	j.PutNamespaces(metas)
	expect()
}

// A subscriber under access rules begins with 1,000 namespaces of one pod. The time for each must not grow with their number.
func BenchmarkMetadataUnderAccessRules(b *testing.B) {
	j := newJournal(journal.Options{})
	u := update(config.ADD)
	for i := range 1000 {
		p := pod("a=1")
		p.Namespace = fmt.Sprint("team-", i)
		p.UID = types.UID(p.Namespace)
		u.Pods = append(u.Pods, p)
	}
	j.Append(u)
	scope, err := NewGate(j.Journal, access.NewPolicy([]access.Rule{{View: access.Metadata}})).Scope(access.Subject{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c := scope.Stream(StreamOptions{NamespaceLabels: true})
		if _, err := drain(c); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
