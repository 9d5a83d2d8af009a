package clients

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestObjectInformers runs unmodified informers of namespaces and nodes during changes, a
// kill, cut connections and a compaction. Each time, they end with the namespaces of the
// pods in /pods, and with the node.
func TestObjectInformers(t *testing.T) {
	testutil.Long(t)
	eachInformer(t, func(t *testing.T, _ bool, contentType string) { testObjectInformers(t, contentType) })
}

func testObjectInformers(t *testing.T, contentType string) {
	args := []string{"--journal-max-updates", "20"}
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	if contentType == runtime.ContentTypeJSON { // pods resume across the kill, objects start again
		args = append(args, "--state-dir", filepath.Join(d.Dir, "state"))
	}
	d = e2e.Start(t, d.Dir, args...)
	d.AwaitFiles(t)
	dialer := &e2e.Dialer{Socket: d.Socket}
	factory := informers.NewSharedInformerFactory(e2e.KubernetesClient(t, dialer, contentType), 0)
	namespaces, nodes := factory.Core().V1().Namespaces().Informer(), factory.Core().V1().Nodes().Informer()
	// The events of the informer must fit together: a namespace is added once, and then gone.
	counts := make(chan map[string]int, 1)
	counts <- make(map[string]int)
	count := func(object any, by int) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		all := <-counts
		name := object.(*v1.Namespace).Name
		if all[name] += by; all[name] != 0 && all[name] != 1 {
			t.Errorf("namespace %s: %d times", name, all[name])
		}
		counts <- all
	}
	if _, err := namespaces.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { count(object, 1) }, DeleteFunc: func(object any) { count(object, -1) },
	}); err != nil {
		t.Fatal(err)
	}
	runInformer(t, namespaces)
	runInformer(t, nodes)
	change := func(n int) {
		t.Helper()
		for range n {
			changeNamespaced(t, d)
		}
	}
	change(300)
	awaitObjects(t, d, namespaces, nodes)
	_, _ = d.End(t, syscall.SIGKILL) // it was killed
	change(20)
	d = e2e.Start(t, d.Dir, args...)
	awaitObjects(t, d, namespaces, nodes)
	change(50)
	dialer.Cut() // they resume
	change(50)
	awaitObjects(t, d, namespaces, nodes)
	dialer.Held.Lock() // their revisions are compacted before they can resume
	dialer.Cut()
	change(200)
	d.AwaitFiles(t)
	dialer.Held.Unlock()
	awaitObjects(t, d, namespaces, nodes)
}

// changeNamespaced changes the manifest of one pod in one of a few namespaces, or removes it.
func changeNamespaced(t *testing.T, d *e2e.Daemon) {
	t.Helper()
	namespace, name := fmt.Sprintf("ns-%d", rand.N(6)), fmt.Sprintf("pod-%d", rand.N(2))
	file := namespace + "-" + name
	if rand.N(2) == 0 {
		if err := os.Remove(filepath.Join(d.Dir, "manifests", file+".yaml")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return
	}
	d.PutFile(t, file, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, annotations: {n: \"%d\"}}\nspec: {containers: [{name: c, image: i}]}\n",
		name, namespace, rand.N(1000)))
}

// awaitObjects waits until the informers have the namespaces of the pods, and the node.
func awaitObjects(t *testing.T, d *e2e.Daemon, namespaces, nodes cache.SharedIndexInformer) {
	t.Helper()
	begin := time.Now()
	testutil.Eventually(t, func() error {
		pods, err := d.Files()
		if err != nil {
			return err
		}
		var want []string
		for i := range pods.Items {
			want = append(want, pods.Items[i].Namespace)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		got := namespaces.GetStore().ListKeys()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the informer has the namespaces %s, the pods %s", strings.Join(got, " "), strings.Join(want, " "))
		}
		if got := nodes.GetStore().ListKeys(); !slices.Equal(got, []string{"node1"}) {
			return fmt.Errorf("the informer has the nodes %v", got)
		}
		return nil
	})
	t.Logf("the same after %v", time.Since(begin).Round(time.Millisecond))
}
