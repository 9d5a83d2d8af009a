package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// TestInformersWithOptions runs informers of client-go with common options against the
// daemon.
func TestInformersWithOptions(t *testing.T) {
	testutil.Long(t)
	typed := func(tweak func(*metav1.ListOptions)) func(*testing.T, *rest.Config) cache.SharedIndexInformer {
		return func(t *testing.T, config *rest.Config) cache.SharedIndexInformer {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(tweak)).Core().V1().Pods().Informer()
		}
	}
	for name, informer := range map[string]func(*testing.T, *rest.Config) cache.SharedIndexInformer{
		"limit": typed(func(o *metav1.ListOptions) { o.Limit = 2 }),
		"fields": typed(func(o *metav1.ListOptions) {
			o.FieldSelector = "spec.host=node1,spec.hostNetwork=false,status.podIP!=10.0.0.1,spec.schedulerName=default-scheduler"
		}),
		"short watches": typed(func(o *metav1.ListOptions) { o.TimeoutSeconds = new(int64(1)) }),
		"long watches":  typed(func(o *metav1.ListOptions) { o.TimeoutSeconds = new(int64(9223372036)) }),
		"dynamic": func(t *testing.T, config *rest.Config) cache.SharedIndexInformer {
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(podsResource).Informer()
		},
	} {
		for _, watchList := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/WatchList=%t", name, watchList), func(t *testing.T) {
				featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
				d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
				d.Mkdir(t)
				for i := range 5 {
					d.Put(t, fmt.Sprintf("pod-%d", i), "i")
				}
				d = e2e.Start(t, d.Dir)
				d.AwaitFiles(t)
				dialer := &e2e.Dialer{Socket: d.Socket}
				t.Cleanup(dialer.Cut)
				var lists atomic.Int32
				followed := informer(t, &rest.Config{Host: "http://localhost", QPS: -1, Dial: dialer.Dial, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
					return e2e.RoundTripper(func(r *http.Request) (*http.Response, error) {
						if !r.URL.Query().Has("watch") {
							lists.Add(1)
						}
						return next.RoundTrip(r)
					})
				}})
				runInformer(t, followed)
				awaitStore(t, d, followed, sameUID)
				first := lists.Load()
				for i := range 10 {
					d.Put(t, fmt.Sprintf("pod-%d", i), "j")
				}
				awaitStore(t, d, followed, sameUID)
				dialer.Cut()
				for i := range 20 {
					d.Put(t, fmt.Sprintf("pod-%d", i), "k")
				}
				awaitStore(t, d, followed, sameUID)
				// A Reflector lists again after a watch of less than a second without events.
				if n := lists.Load(); n != first && name != "short watches" {
					t.Errorf("it listed %d times at first, and %d times later, when it should watch", first, n-first)
				}
			})
		}
	}
}

func runInformer(t *testing.T, informer cache.SharedIndexInformer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// awaitStore waits until daemon and informer have the pods of the directory, and same finds no
// difference between a pod of the daemon and the object of the informer.
func awaitStore(t *testing.T, d *e2e.Daemon, informer cache.SharedIndexInformer, same func(want *v1.Pod, object any) error) {
	t.Helper()
	testutil.Eventually(t, func() error {
		list, err := d.Files()
		if err != nil {
			return err
		}
		if n := len(informer.GetStore().List()); n != len(list.Items) {
			return fmt.Errorf("/pods has %d pods, the informer %d", len(list.Items), n)
		}
		for i := range list.Items {
			want := &list.Items[i]
			object, found, err := informer.GetStore().GetByKey(want.Namespace + "/" + want.Name)
			if err != nil || !found {
				return fmt.Errorf("the informer has no %s: %w", want.Name, err)
			}
			if err := same(want, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// sameUID compares the UID, which depends on the content of the manifest.
func sameUID(want *v1.Pod, object any) error {
	if got, err := meta.Accessor(object); err != nil || got.GetUID() != want.UID {
		return fmt.Errorf("the informer has %v, /pods %v: %w", object, want, err)
	}
	return nil
}

// A RetryWatcher resumes from the resourceVersion of the last event when its connection
// breaks.
func TestRetryWatcher(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "first", "i")
	d = e2e.Start(t, d.Dir)
	d.AwaitFiles(t)
	dialer := &e2e.Dialer{Socket: d.Socket}
	pods := e2e.KubernetesClient(t, dialer, runtime.ContentTypeJSON).CoreV1().Pods(metav1.NamespaceAll)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { watcher.Stop(); <-watcher.Done() }()
	for i := range 5 {
		name := fmt.Sprintf("pod-%d", i)
		d.Put(t, name, "i")
		event := <-watcher.ResultChan()
		pod, err := meta.Accessor(event.Object)
		if err != nil || event.Type != watch.Added || pod.GetName() != name+"-node1" {
			t.Fatalf("got %s of %+v, want %s ADDED", event.Type, event.Object, name)
		}
		dialer.Cut()
	}
}
