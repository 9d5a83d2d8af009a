package conformance

import (
	"context"
	"fmt"
	nethttp "net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// The tests below show both sides of each intended difference in
// docs/explanation/kubelet-differences.md: what the kubelet's own sources do, and what podconfigd's
// do instead.

// never is a period that is longer than any test, soon one that is shorter.
const (
	never = time.Hour
	soon  = 200 * time.Millisecond
	// quiet is how long nothing may come: several times soon.
	quiet = time.Second
)

// side has the updates of one side: "OP name=image name=image".
type side struct {
	name    string
	updates chan string
}

func newSide(name string) *side { return &side{name, make(chan string, 1000)} }

func (s *side) add(op string, pods []*v1.Pod) {
	parts := []string{op}
	for _, p := range pods {
		parts = append(parts, strings.TrimSuffix(p.Name, "-"+string(node))+"="+p.Spec.Containers[0].Image)
	}
	slices.Sort(parts[1:])
	s.updates <- strings.Join(parts, " ")
}

func (s *side) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, line := range want {
		select {
		case got := <-s.updates:
			if got != line {
				t.Fatalf("%s says %q, want %q", s.name, got, line)
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("%s says nothing, want %q", s.name, line)
		}
	}
}

func (s *side) silent(t *testing.T) {
	t.Helper()
	select {
	case got := <-s.updates:
		t.Fatalf("%s says %q, want nothing", s.name, got)
	case <-time.After(quiet):
	}
}

var kubeletOps = map[kubelettypes.PodOperation]string{
	kubelettypes.ADD: "ADD", kubelettypes.DELETE: "DELETE", kubelettypes.REMOVE: "REMOVE",
	kubelettypes.UPDATE: "UPDATE", kubelettypes.RECONCILE: "RECONCILE",
}

// kubeletSide runs the kubelet's PodConfig on what start starts. Its goroutines run until
// the test program ends.
func kubeletSide(t *testing.T, start func(ctx context.Context, c *kubeletconfig.PodConfig)) *side {
	t.Helper()
	s := newSide("the kubelet")
	c := kubeletconfig.NewPodConfig(&record.FakeRecorder{}, noSLI{})
	start(klog.NewContext(context.Background(), logr.Discard()), c)
	go func() {
		for u := range c.Updates() {
			s.add(kubeletOps[u.Op], u.Pods)
		}
	}()
	return s
}

func ourSide(t *testing.T, name string, run func(ctx context.Context, sets chan<- config.SourceSet) error) *side {
	t.Helper()
	s := newSide("podconfigd")
	c := config.NewPodConfig()
	channel := c.Channel(name)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	running.Go(func() { _ = run(ctx, channel) })
	running.Go(func() {
		for u := range c.Updates() {
			s.add(u.Op.String(), u.Pods)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// onPath runs both sides on a path, and waits for their first updates.
func onPath(t *testing.T, path string, kubeletsPeriod time.Duration, first ...string) (kubelet, ours *side) {
	t.Helper()
	kubelet = kubeletSide(t, func(ctx context.Context, c *kubeletconfig.PodConfig) {
		kubeletconfig.NewSourceFile(logr.Discard(), path, node, kubeletsPeriod, c.Channel(ctx, "file"))
	})
	ours = ourSide(t, "file", file.New(file.Options{Path: path, Decoder: manifest.NewDecoder(node), Period: never}).Run)
	kubelet.expect(t, first[0])
	ours.expect(t, first[len(first)-1])
	awaitWatches(t, path, 2) // the kubelet lists before it watches
	return kubelet, ours
}

// awaitWatches waits until this process has this number of inotify watches of a
// directory, if it exists: one of the kubelet, and one of podconfigd.
func awaitWatches(t *testing.T, dir string, n int) {
	t.Helper()
	info, err := os.Stat(dir)
	if os.IsNotExist(err) {
		return
	}
	must(t, err)
	watch := fmt.Sprintf(" ino:%x ", info.Sys().(*syscall.Stat_t).Ino)
	testutil.Until(t, "the watches are there", func() bool {
		found := 0
		files, _ := filepath.Glob("/proc/self/fdinfo/*")
		for _, file := range files {
			data, _ := os.ReadFile(file) // some are closed in the meantime
			found += strings.Count(string(data), watch)
		}
		return found >= n
	})
}

func put(t *testing.T, dir, file, name, image string) {
	t.Helper()
	data := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image)
	temp := testutil.WriteFile(t, filepath.Join(t.TempDir(), file), data)
	must(t, os.Rename(temp, filepath.Join(dir, file)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDifferenceManifestTurnsBad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "a.yaml", "a", "1")
	kubelet, ours := onPath(t, dir, soon, "ADD a=1")
	temp := testutil.WriteFile(t, filepath.Join(t.TempDir(), "a.yaml"), "kind: [")
	must(t, os.Rename(temp, filepath.Join(dir, "a.yaml")))
	kubelet.expect(t, "REMOVE a=1")
	ours.silent(t)
}

func TestDifferencePathVanishes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o755))
	put(t, dir, "a.yaml", "a", "1")
	kubelet, ours := onPath(t, dir, soon, "ADD a=1")
	must(t, os.Rename(dir, dir+".away"))
	kubelet.expect(t, "REMOVE a=1")
	ours.silent(t)
	must(t, os.Mkdir(dir, 0o755)) // an empty directory is not a vanished one
	ours.expect(t, "REMOVE a=1")
}

func TestTheSamePathAbsentAtTheStart(t *testing.T) {
	t.Parallel()
	kubelet, ours := onPath(t, filepath.Join(t.TempDir(), "manifests"), never, "ADD")
	kubelet.silent(t)
	ours.silent(t)
}

// A manifest path that is a single bad file is not an empty set.
func TestTheSameSingleFileInvalidAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := testutil.WriteFile(t, filepath.Join(dir, "a.yaml"), "kind: [")
	kubelet := kubeletSide(t, func(ctx context.Context, c *kubeletconfig.PodConfig) {
		kubeletconfig.NewSourceFile(logr.Discard(), path, node, soon, c.Channel(ctx, "file"))
	})
	ours := ourSide(t, "file", file.New(file.Options{Path: path, Decoder: manifest.NewDecoder(node), Period: never}).Run)
	kubelet.silent(t)
	ours.silent(t)
	put(t, dir, "a.yaml", "a", "1")
	kubelet.expect(t, "ADD a=1")
	ours.expect(t, "ADD a=1")
}

func TestDifferenceDirectoryRenamedAndMadeAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Mkdir(dir+".new", 0o755))
	put(t, dir, "a.yaml", "a", "1")
	put(t, dir+".new", "a.yaml", "a", "2")
	kubelet, ours := onPath(t, dir, never, "ADD a=1")
	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Rename(dir+".new", dir))
	ours.expect(t, "REMOVE a=1", "ADD a=2") // another manifest has another UID
	put(t, dir, "b.yaml", "b", "1")
	ours.expect(t, "ADD b=1")
	kubelet.silent(t)
}

func TestDifferenceTwoFilesOfOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "a.yaml", "x", "1")
	put(t, dir, "b.yaml", "x", "2")
	kubelet, ours := onPath(t, dir, never, "ADD x=2", "ADD x=1")
	must(t, os.Remove(filepath.Join(dir, "b.yaml"))) // the file that the kubelet uses
	kubelet.expect(t, "REMOVE x=2")
	kubelet.silent(t) // though a.yaml is still there
	ours.silent(t)
	put(t, dir, "b.yaml", "x", "2")
	kubelet.expect(t, "ADD x=2")
	ours.silent(t)
	must(t, os.Remove(filepath.Join(dir, "a.yaml"))) // the file that podconfigd uses
	ours.expect(t, "REMOVE x=1", "ADD x=2")
}

// A subscriber that does not read stalls all sources of the kubelet. In podconfigd it
// stalls none.
func TestDifferenceSlowSubscriber(t *testing.T) {
	t.Parallel()
	set := func(i int) []*v1.Pod {
		p := &v1.Pod{}
		p.Name, p.UID, p.Namespace = "a", "a", "default"
		p.Spec.Containers = []v1.Container{{Name: "c", Image: fmt.Sprint(i)}}
		return []*v1.Pod{p}
	}
	const many = 200 // the kubelet's channel has a capacity of 50
	dir, other := t.TempDir(), newSite(t, podtest.List())
	put(t, dir, "a.yaml", "a", "0")
	c := kubeletconfig.NewPodConfig(&record.FakeRecorder{}, noSLI{})
	ctx := klog.NewContext(context.Background(), logr.Discard())
	kubeletconfig.NewSourceFile(logr.Discard(), dir, node, never, c.Channel(ctx, "file"))
	awaitWatches(t, dir, 1)
	for i := range many {
		put(t, dir, "a.yaml", "a", fmt.Sprint(i))
		<-time.After(time.Millisecond)
	}
	deadline := time.Now().Add(testutil.Patience)
	for len(c.Updates()) < cap(c.Updates()) {
		if time.Now().After(deadline) {
			t.Fatalf("the kubelet's channel has room for %d, and %d are in it", cap(c.Updates()), len(c.Updates()))
		}
		<-time.After(10 * time.Millisecond)
	}
	kubeletconfig.NewSourceURL(logr.Discard(), other.URL, nethttp.Header{}, node, soon, c.Channel(ctx, "http"))
	<-time.After(quiet)
	if c.SeenAllSources(klog.Background(), sets.New("file", "http")) {
		t.Error("the kubelet's second source gets through: this is no difference any more")
	}

	ours := config.NewPodConfig()
	fileSets, httpSets := ours.Channel("file"), ours.Channel("http")
	j := journal.New(journal.Options{Sources: ours.Sources()})
	defer view.Stream(j, view.StreamOptions{}).Close() // nobody reads it
	octx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = ours.Run(octx) })
	seen := make(chan struct{})
	running.Go(func() {
		for u := range ours.Updates() {
			j.Append(u)
			if u.Source == "http" {
				close(seen)
			}
		}
	})
	for i := range many {
		fileSets <- config.SourceSet{Pods: set(i)}
	}
	httpSets <- config.SourceSet{}
	select {
	case <-seen:
	case <-time.After(testutil.Patience):
		t.Fatal("our second source does not get through")
	}
}

// The end of the context ends the goroutines of podconfigd's source, and none of the
// kubelet's.
//
// The test looks at all goroutines, so it does not run in parallel with others.
func TestDifferenceCancellation(t *testing.T) {
	dir := t.TempDir()
	count := func(text string) int {
		buffer := make([]byte, 16<<20)
		return strings.Count(string(buffer[:runtime.Stack(buffer, true)]), text)
	}
	const theirs, ourRun = "pkg/kubelet/config.(*sourceFile)", "pkg/sources/file.(*Source).Run"
	before := count(theirs)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	c := kubeletconfig.NewPodConfig(&record.FakeRecorder{}, noSLI{})
	kubeletconfig.NewSourceFile(logr.Discard(), dir, node, never, c.Channel(ctx, "file"))
	<-c.Updates()
	source := file.New(file.Options{Path: dir, Decoder: manifest.NewDecoder(node)})
	sets := make(chan config.SourceSet)
	ended := make(chan error)
	go func() { ended <- source.Run(ctx, sets) }()
	<-sets
	cancel()
	<-ended
	if n := count(ourRun); n != 0 {
		t.Errorf("%d of our goroutines are left", n)
	}
	<-time.After(quiet)
	if count(theirs) <= before {
		t.Error("the kubelet's goroutines end with the context: this is no difference any more")
	}
}
