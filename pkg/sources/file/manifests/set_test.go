package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// bench is a set and its directory.
type bench struct {
	*testing.T
	dir string
	set *Set
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	return &bench{t, dir, New(Options{Path: dir, Decoder: manifest.NewDecoder("n"), Impatient: true})}
}

func (b *bench) write(file, data string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, file), []byte(data), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) remove(file string) {
	b.Helper()
	if err := os.Remove(filepath.Join(b.dir, file)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) lookAll() (changed bool) {
	b.Helper()
	names, dir, err := follow.List(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	return b.set.LookAll(b.Context(), dir, names)
}

func (b *bench) expect(want string) {
	b.Helper()
	var got []string
	pods, _ := b.set.Pods()
	for _, p := range pods {
		got = append(got, strings.TrimSuffix(p.Name, "-n")+"="+p.Spec.Containers[0].Image)
	}
	if strings.Join(got, " ") != want {
		b.Errorf("the pods are %q, want %q", got, want)
	}
}

func (b *bench) states() (states string) {
	for _, v := range b.set.Verdicts() {
		states += fmt.Sprintf("%s %s ", filepath.Base(v.File), v.State)
	}
	return strings.TrimSpace(states)
}

// Only the files that are looked at change the set.
func TestLook(t *testing.T) {
	b := newBench(t)
	if b.lookAll() {
		t.Error("an empty directory changed an empty set")
	}
	b.write("a.yaml", podtest.Manifest("a", "1"))
	b.write("b.yaml", podtest.Manifest("b", "1"))
	if changed := b.set.Look(t.Context(), []string{"a.yaml"}); !changed {
		t.Error("a.yaml changed nothing")
	}
	b.expect("a=1")
	if !b.lookAll() || b.lookAll() {
		t.Error("b.yaml is a change, once")
	}
	b.expect("a=1 b=1")
	b.write("b.yaml", "kind: [")
	if b.set.Look(t.Context(), []string{"b.yaml"}) {
		t.Error("a manifest that turned bad changed the set")
	}
	b.expect("a=1 b=1")
	if got := b.states(); got != "a.yaml Accepted b.yaml Held" {
		t.Error(got)
	}
}

// If two files give the same pod name, the first has it until it has been missing for the
// grace period.
func TestTakingOver(t *testing.T) {
	b := newBench(t)
	b.write("a.yaml", podtest.Manifest("x", "1"))
	b.write("b.yaml", podtest.Manifest("x", "2"))
	b.lookAll()
	b.expect("x=1")
	if got := b.states(); got != "a.yaml Accepted b.yaml Shadowed" {
		t.Error(got)
	}
	b.remove("a.yaml")
	began := time.Now()
	if b.lookAll() {
		t.Error("the file counts as gone at once")
	}
	b.expect("x=1")
	n, due := b.set.Unsettled()
	if n != 1 {
		t.Fatalf("%d files are unsettled", n)
	}
	<-time.After(time.Until(due))
	b.set.Look(t.Context(), nil)
	if took := time.Since(began); took < removalGrace-time.Millisecond {
		t.Errorf("it was removed after %v", took)
	}
	b.expect("x=2")
	if got := b.states(); got != "b.yaml Accepted" {
		t.Error(got)
	}
}

// Files that are missing while the path can't be read are not removed, however long it
// takes.
func TestHold(t *testing.T) {
	b := newBench(t)
	b.write("a.yaml", podtest.Manifest("a", "1"))
	b.lookAll()
	b.remove("a.yaml")
	b.lookAll()
	b.set.Hold()
	if n, _ := b.set.Unsettled(); n != 0 {
		t.Errorf("%d files are unsettled", n)
	}
	if b.set.Look(t.Context(), nil) {
		t.Error("something changed")
	}
	b.expect("a=1")
}

// A directory that is replaced by a bad file keeps its pods, and none of its files is due
// again until the path changes: not even one that was missing just before.
func TestAReplacedDirectoryIsNotLookedAtAgain(t *testing.T) {
	b := newBench(t)
	b.write("a.yaml", podtest.Manifest("a", "1"))
	b.lookAll()
	b.remove("a.yaml")
	b.lookAll()
	if n, _ := b.set.Unsettled(); n != 1 {
		t.Fatalf("%d files are unsettled, want the missing one", n)
	}
	if err := os.Remove(b.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.dir, []byte("kind: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	b.lookAll()
	if n, due := b.set.Unsettled(); n != 0 {
		t.Errorf("%d files are unsettled, the first is due in %v", n, time.Until(due))
	}
	b.expect("a=1")

	if err := os.WriteFile(b.dir, []byte(podtest.Manifest("c", "1")), 0o600); err != nil {
		t.Fatal(err)
	}
	b.lookAll()
	b.expect("c=1 a=1")
	_, due := b.set.Unsettled()
	<-time.After(time.Until(due))
	b.set.Look(t.Context(), nil)
	b.expect("c=1")
}

// The pods' UIDs can be those of another directory.
func TestAs(t *testing.T) {
	b, elsewhere := newBench(t), newBench(t)
	elsewhere.set = New(Options{Path: elsewhere.dir, As: b.dir, Decoder: manifest.NewDecoder("n"), Impatient: true})
	for _, bench := range []*bench{b, elsewhere} {
		bench.write("a.yaml", podtest.Manifest("a", "1"))
		bench.lookAll()
	}
	v, other := b.set.Verdicts()[0], elsewhere.set.Verdicts()[0]
	if v.UID != other.UID || v.Path != other.Path || v.File == other.File {
		t.Errorf("%+v and %+v", v, other)
	}
}

// A file that can't be read for a moment, and then has the same content, keeps the pointer of its pod.
func TestAnUnreadableFileComesBack(t *testing.T) {
	b := newBench(t)
	target := filepath.Join(t.TempDir(), "target")
	link := filepath.Join(b.dir, "a.yaml")
	point := func(to string) {
		_ = os.Remove(link) // it may not be there yet
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(target, []byte(podtest.Manifest("a", "1")), 0o644); err != nil {
		t.Fatal(err)
	}
	point(target)
	b.lookAll()
	before, _ := b.set.Pods()
	point(link) // a cycle
	b.lookAll()
	if got := b.states(); got != "a.yaml Held" {
		t.Errorf("the state is %s", got)
	}
	point(target)
	b.lookAll()
	if after, _ := b.set.Pods(); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
		t.Errorf("%d pods before, %d after, or another pointer", len(before), len(after))
	}
}
