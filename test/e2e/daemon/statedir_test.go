package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	podconfigdv1alpha1 "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A daemon with 110 pods is killed. Three manifests change before it starts again. Every
// subscriber that resumes gets exactly these three changes: one that stays, and others that
// only know where they were.
func TestOnlyWhatChangedWhileTheDaemonWasDown(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	args := []string{"--state-dir", filepath.Join(dir, "state")}
	d := &e2e.Daemon{Dir: dir}
	d.Mkdir(t)
	put := func(name, image string) {
		t.Helper()
		d.PutFile(t, name, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-of-%[1]s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image))
	}
	for n := range 110 {
		put(fmt.Sprintf("pod-%03d", n), "image:1")
	}
	d = e2e.Start(t, dir, args...)
	stays := d.Watch(t, client.Options{})
	var at *v1alpha1.Update
	for pods := 0; pods < 110 || at.Revision == 0; pods += len(at.Pods) {
		select {
		case at = <-stays.Updates:
		case <-time.After(testutil.Patience):
			t.Fatalf("%d pods", pods)
		}
	}

	if _, err := d.End(t, syscall.SIGKILL); err == nil {
		t.Error("it ended well, though it was killed")
	}
	for _, name := range []string{"pod-007", "pod-050", "pod-109"} {
		put(name, "image:2")
	}
	d = e2e.Start(t, dir, args...)
	stayed := changesOf(t, stays, 3)
	put("last", "image:1")

	want := []string{"UPDATE pod-007-node1 image:2", "UPDATE pod-050-node1 image:2", "UPDATE pod-109-node1 image:2", "ADD last-node1 image:1"}
	for name, changes := range map[string]func(t *testing.T) []string{
		"a subscriber that stays": func(t *testing.T) []string { return append(stayed, changesOf(t, stays, 1)...) },
		"the Go client": func(t *testing.T) []string {
			return changesOf(t, d.Watch(t, client.Options{Instance: at.Instance, Since: at.Revision}), len(want))
		},
		"gRPC":               func(t *testing.T) []string { return grpcChanges(t, d, at, len(want)) },
		"the Kubernetes API": func(t *testing.T) []string { return kubernetesChanges(t, d, at.Revision, len(want)) },
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(t)
			slices.Sort(got[:len(got)-1]) // the order of files within an update does not matter
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func change(op string, p *v1.Pod) string {
	return op + " " + p.Name + " " + p.Spec.Containers[0].Image
}

// changesOf returns the first changes of pods. Nothing but bookmarks may come between them.
func changesOf(t *testing.T, s *e2e.Stream, n int) (changes []string) {
	t.Helper()
	for len(changes) < n {
		select {
		case u := <-s.Updates:
			if u.Reset {
				changes = append(changes, "RESET")
			}
			for _, p := range u.Pods {
				changes = append(changes, change(string(u.Op), p))
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("no more than %q", changes)
		}
	}
	return changes
}

func grpcChanges(t *testing.T, d *e2e.Daemon, at *v1alpha1.Update, n int) (changes []string) {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+d.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := podconfigdv1alpha1.NewPodConfigClient(conn).Watch(t.Context(), &podconfigdv1alpha1.WatchRequest{Instance: at.Instance, Since: &at.Revision})
	for len(changes) < n {
		var u *podconfigdv1alpha1.WatchResponse
		if err == nil {
			u, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		if u.GetReset_() {
			changes = append(changes, "RESET")
		}
		for _, data := range u.GetPods() {
			var p v1.Pod
			if err := p.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			changes = append(changes, change(u.GetOp().String()[len("OPERATION_"):], &p))
		}
	}
	return changes
}

// kubernetesChanges returns what a watch of the Kubernetes API gets that only knows a revision.
func kubernetesChanges(t *testing.T, d *e2e.Daemon, revision int64, n int) (changes []string) {
	t.Helper()
	pods, err := e2e.KubernetesClient(t, &e2e.Dialer{Socket: d.Socket}, runtime.ContentTypeJSON).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: strconv.FormatInt(revision, 10),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Stop()
	for len(changes) < n {
		select {
		case e := <-pods.ResultChan():
			p, isPod := e.Object.(*v1.Pod)
			switch {
			case !isPod:
				t.Fatalf("%+v", e)
			case e.Type == watch.Modified:
				changes = append(changes, change("UPDATE", p))
			case e.Type == watch.Added:
				changes = append(changes, change("ADD", p))
			default:
				changes = append(changes, string(e.Type))
			}
		case <-time.After(testutil.Patience):
			t.Fatalf("no more than %q", changes)
		}
	}
	return changes
}

// A start restores as many updates as the journal may keep.
func TestALargeJournalComesBack(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	args := []string{"--state-dir", filepath.Join(dir, "state"), "--journal-max-bytes", "1000000000"}
	d := &e2e.Daemon{Dir: dir}
	d.Mkdir(t)
	d.PutFile(t, "a", fat("a", "0"))
	d = e2e.Start(t, dir, args...)
	s := d.Watch(t, client.Options{})
	var first *v1alpha1.Update
	for first == nil || first.Revision == 0 {
		first = <-s.Updates
	}
	const versions = 300 // of 64 KiB: more than the 16 MiB of the default
	for n := range versions {
		d.PutFile(t, "a", fat("a", fmt.Sprint("version ", n)))
		changesOf(t, s, 1)
	}
	d = d.Again(t, func() {}, args...)
	s = d.Watch(t, client.Options{Instance: first.Instance, Since: first.Revision})
	if u := <-s.Updates; u.Reset {
		t.Fatal(u.Message)
	}
	for n, change := range changesOf(t, s, versions-1) {
		if change != "UPDATE a-node1 i" {
			t.Fatalf("change %d is %s", n, change)
		}
	}
}
