package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// get returns the daemon's answer.
func get(t *testing.T, d *e2e.Dialer, path string) string {
	t.Helper()
	transport := &http.Transport{DialContext: d.Dial, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestInformers runs unmodified informers of client-go during changes, kills and
// compactions. Each time, they end with the pods in /pods.
func TestInformers(t *testing.T) {
	const changes = 10_000
	eachInformer(t, func(t *testing.T, watchList bool, contentType string) {
		testInformer(t, watchList, contentType, changes/4) // each informer gets a part of the changes
	})
}

// eachInformer runs a test with and without WatchList, which is a setting of the whole process,
// and at the same time for both content types.
func eachInformer(t *testing.T, test func(t *testing.T, watchList bool, contentType string)) {
	t.Helper()
	ways, types := []bool{true, false}, []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}
	if testing.Short() {
		ways, types = ways[:1], types[:1]
	}
	for _, watchList := range ways {
		t.Run(fmt.Sprintf("WatchList=%t", watchList), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
			var both sync.WaitGroup
			for _, contentType := range types {
				both.Go(func() {
					t.Run(filepath.Base(contentType), func(t *testing.T) { test(t, watchList, contentType) })
				})
			}
			both.Wait()
		})
	}
}

func testInformer(t *testing.T, watchList bool, contentType string, changes int) {
	// The journal keeps so few updates that the revision of a disconnected informer is
	// soon compacted. A Reflector doubles its wait after each failure, so each informer
	// gets only the necessary number of failures.
	args := []string{"--journal-max-updates", "20"}
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d = e2e.Start(t, d.Dir, args...)
	d.AwaitFiles(t) // a Reflector that can't connect stops using WatchList
	dialer := &e2e.Dialer{Socket: d.Socket}
	informer := informers.NewSharedInformerFactory(e2e.KubernetesClient(t, dialer, contentType), 0).Core().V1().Pods().Informer()
	runInformer(t, informer)
	kinds := make(map[string]int)
	change := func(n int) {
		for i := range n {
			kinds[changeOne(t, d, i)]++
		}
	}
	change(changes / 4)
	awaitInformer(t, d, informer)

	change(changes / 4)
	_, _ = d.End(t, syscall.SIGKILL) // it was killed
	change(10)
	d = e2e.Start(t, d.Dir, args...)
	awaitInformer(t, d, informer)

	d.Put(t, "quiet", "i") // a watch without events is not resumed
	awaitInformer(t, d, informer)
	dialer.Held.Lock() // its revision is compacted before it can resume
	dialer.Cut()
	change(changes / 4)
	d.AwaitFiles(t)
	dialer.Held.Unlock()
	awaitInformer(t, d, informer)
	if metrics := get(t, dialer, "/metrics"); strings.Contains(metrics, `podconfigd_journal_resets_total{reason="compacted"} 0`+"\n") {
		t.Error("its revision was not compacted")
	}

	change(changes / 8)
	dialer.Cut() // resumes from its revision
	change(changes / 8)
	awaitInformer(t, d, informer)
	if n := dialer.WatchLists.Load(); (n > 0) != watchList {
		t.Errorf("%d watches began with the present pods", n)
	}
	if len(kinds) < 3 {
		t.Errorf("the changes were %v", kinds)
	}
}

// changeOne changes one manifest at random: a pod keeps its UID, gets a new one, or is
// removed.
func changeOne(t *testing.T, d *e2e.Daemon, i int) (kind string) {
	t.Helper()
	name := fmt.Sprintf("pod-%d", rand.N(40))
	uid := ""
	switch rand.N(5) {
	case 0:
		err := os.Remove(filepath.Join(d.Dir, "manifests", name+".yaml"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return "removed"
	case 1, 2, 3:
		kind, uid = "updated", "\n  uid: uid-of-"+name
	default:
		kind = "replaced"
	}
	manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s%s\n  annotations: {version: %q}\nspec: {containers: [{name: c, image: i}]}\n", name, uid, fmt.Sprint(i))
	temp := filepath.Join(d.Dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(d.Dir, "manifests", name+".yaml")); err != nil {
		t.Fatal(err)
	}
	return kind
}

// awaitInformer waits until daemon and informer have the pods of the directory.
func awaitInformer(t *testing.T, d *e2e.Daemon, informer cache.SharedIndexInformer) {
	t.Helper()
	begin := time.Now()
	awaitStore(t, d, informer, samePod)
	t.Logf("the same after %v", time.Since(begin).Round(time.Millisecond))
}

// samePod compares everything that the Kubernetes API does not add to a pod.
func samePod(want *v1.Pod, object any) error {
	got := object.(*v1.Pod).DeepCopy()
	if got.ResourceVersion == "" {
		return fmt.Errorf("%s has no resourceVersion", got.Name)
	}
	if got.CreationTimestamp.IsZero() || !want.CreationTimestamp.IsZero() {
		return fmt.Errorf("%s was created at %q, of /pods at %q", got.Name, got.CreationTimestamp, want.CreationTimestamp)
	}
	got.ResourceVersion, want.ResourceVersion = "", ""
	got.CreationTimestamp = metav1.Time{} // static pods have one only in the Kubernetes API
	got.TypeMeta, want.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	if !apiequality.Semantic.DeepEqual(got, want) {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		return fmt.Errorf("the informer has\n%s\n/pods\n%s", a, b)
	}
	return nil
}

// All pages of a list have one revision, even if pods change in the meantime.
func TestClientGoLists(t *testing.T) {
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	for i := range 10 {
		d.Put(t, fmt.Sprintf("pod-%d", i), "i")
	}
	d = e2e.Start(t, d.Dir)
	d.AwaitFiles(t)
	dialer := &e2e.Dialer{Socket: d.Socket}
	pods := e2e.KubernetesClient(t, dialer, runtime.ContentTypeProtobuf).CoreV1().Pods(metav1.NamespaceAll)
	var names []string
	opts := metav1.ListOptions{Limit: 3}
	for {
		page, err := pods.List(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
		d.Put(t, fmt.Sprintf("pod-%d-new", len(names)), "i")
		testutil.Eventually(t, func() error {
			_, err := e2e.KubernetesClient(t, dialer, runtime.ContentTypeJSON).CoreV1().Pods("default").
				Get(t.Context(), fmt.Sprintf("pod-%d-new-node1", len(names)), metav1.GetOptions{})
			return err
		})
	}
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("pod-%d-node1", i))
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
