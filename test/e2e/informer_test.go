package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

// dialer connects to the daemon's socket, and can be blocked.
type dialer struct {
	socket string
	mu     sync.Mutex
	conns  []net.Conn
	// held is locked while no connection can be made.
	held sync.RWMutex
	// watchLists counts the watches that start with the current pods.
	watchLists atomic.Int32
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (d *dialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.held.RLock()
	defer d.held.RUnlock()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.socket)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, conn)
	return &cutConn{conn}, nil
}

// cutConn is a connection that looks as if the other end had closed it. Then a Reflector
// resumes its watch, and does not list again.
type cutConn struct{ net.Conn }

func (c *cutConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// cut closes all connections.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
}

// get returns the daemon's answer.
func (d *dialer) get(t *testing.T, path string) string {
	t.Helper()
	transport := &http.Transport{DialContext: d.dial, DisableKeepAlives: true}
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

// kubernetesClient returns a client of client-go.
func kubernetesClient(t *testing.T, d *dialer, contentType string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://localhost", QPS: -1, Dial: d.dial,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("sendInitialEvents") == "true" {
					d.watchLists.Add(1)
				}
				return next.RoundTrip(r)
			})
		},
		ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.cut)
	return client
}

// TestInformers runs unmodified informers of client-go during changes, kills and
// compactions. Each time, they end with the pods in /pods.
func TestInformers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute, most of which Reflectors wait")
	}
	const changes = 10_000
	eachInformer(t, func(t *testing.T, watchList bool, contentType string) {
		testInformer(t, watchList, contentType, changes/4) // each informer gets a part of the changes
	})
}

// eachInformer runs a test with and without WatchList, which is a setting of the whole process,
// and at the same time for both content types.
func eachInformer(t *testing.T, test func(t *testing.T, watchList bool, contentType string)) {
	t.Helper()
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("WatchList=%t", watchList), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
			var both sync.WaitGroup
			for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
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
	d := &daemon{dir: testutil.ShortDir(t)}
	d.mkdir(t)
	d = start(t, d.dir, args...)
	d.awaitFiles(t) // a Reflector that can't connect stops using WatchList
	dialer := &dialer{socket: d.socket}
	informer := informers.NewSharedInformerFactory(kubernetesClient(t, dialer, contentType), 0).Core().V1().Pods().Informer()
	runInformer(t, informer)
	kinds := make(map[string]int)
	change := func(n int) {
		for i := range n {
			kinds[d.changeOne(t, i)]++
		}
	}
	change(changes / 4)
	d.awaitInformer(t, informer)

	change(changes / 4)
	_, _ = d.end(t, syscall.SIGKILL) // it was killed
	change(10)
	d = start(t, d.dir, args...)
	d.awaitInformer(t, informer)

	d.put(t, "quiet", "i") // a watch without events is not resumed
	d.awaitInformer(t, informer)
	dialer.held.Lock() // its revision is compacted before it can resume
	dialer.cut()
	change(changes / 4)
	d.awaitFiles(t)
	dialer.held.Unlock()
	d.awaitInformer(t, informer)
	if metrics := dialer.get(t, "/metrics"); strings.Contains(metrics, `podconfigd_journal_resets_total{reason="compacted"} 0`+"\n") {
		t.Error("its revision was not compacted")
	}

	change(changes / 8)
	dialer.cut() // resumes from its revision
	change(changes / 8)
	d.awaitInformer(t, informer)
	if n := dialer.watchLists.Load(); (n > 0) != watchList {
		t.Errorf("%d watches began with the present pods", n)
	}
	if len(kinds) < 3 {
		t.Errorf("the changes were %v", kinds)
	}
}

// changeOne changes one manifest at random: a pod keeps its UID, gets a new one, or is
// removed.
func (d *daemon) changeOne(t *testing.T, i int) (kind string) {
	t.Helper()
	name := fmt.Sprintf("pod-%d", rand.N(40))
	uid := ""
	switch rand.N(5) {
	case 0:
		err := os.Remove(filepath.Join(d.dir, "manifests", name+".yaml"))
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
	temp := filepath.Join(d.dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(d.dir, "manifests", name+".yaml")); err != nil {
		t.Fatal(err)
	}
	return kind
}

// files waits until the daemon has the pods of the directory, and returns them.
func (d *daemon) files() (*v1.PodList, error) {
	files, err := fs.Glob(os.DirFS(filepath.Join(d.dir, "manifests")), "*.yaml")
	if err != nil {
		return nil, err
	}
	list, err := d.client.Pods(context.Background())
	if err != nil {
		return nil, err
	}
	if len(list.Items) != len(files) {
		return nil, fmt.Errorf("/pods has %d pods, the directory %d manifests", len(list.Items), len(files))
	}
	return list, nil
}

func (d *daemon) awaitFiles(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error {
		_, err := d.files()
		return err
	})
}

// awaitInformer waits until daemon and informer have the pods of the directory.
func (d *daemon) awaitInformer(t *testing.T, informer cache.SharedIndexInformer) {
	t.Helper()
	begin := time.Now()
	d.awaitStore(t, informer, samePod)
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
	d := &daemon{dir: testutil.ShortDir(t)}
	d.mkdir(t)
	for i := range 10 {
		d.put(t, fmt.Sprintf("pod-%d", i), "i")
	}
	d = start(t, d.dir)
	d.awaitFiles(t)
	dialer := &dialer{socket: d.socket}
	pods := kubernetesClient(t, dialer, runtime.ContentTypeProtobuf).CoreV1().Pods(metav1.NamespaceAll)
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
		d.put(t, fmt.Sprintf("pod-%d-new", len(names)), "i")
		testutil.Eventually(t, func() error {
			_, err := kubernetesClient(t, dialer, runtime.ContentTypeJSON).CoreV1().Pods("default").
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
