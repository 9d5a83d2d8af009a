package clients

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// controllerRuntime compares a cache of controller-runtime with pods, nodes and namespaces.
func controllerRuntime(t *testing.T, n *node) view {
	t.Helper()
	log.SetLogger(klog.Background())
	kubernetes, err := cache.New(n.restConfig(t), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []client.Object{new(v1.Pod), new(v1.Node), new(v1.Namespace)} {
		if _, err := kubernetes.GetInformer(t.Context(), kind, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := kubernetes.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	if !kubernetes.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not synced")
	}
	return view{
		want: func(pods []v1.Pod) []string {
			lines := []string{"node node1 192.0.2.7", "namespace default"}
			for i := range pods {
				lines = append(lines, wholePod(&pods[i]))
			}
			return lines
		},
		got: func(ctx context.Context) ([]string, error) { return cached(ctx, kubernetes) },
	}
}

func cached(ctx context.Context, from client.Reader) (lines []string, err error) {
	var pods v1.PodList
	if err := from.List(ctx, &pods); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		lines = append(lines, wholePod(&pods.Items[i]))
	}
	var nodes v1.NodeList
	if err := from.List(ctx, &nodes); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		lines = append(lines, "node "+nodes.Items[i].Name+" "+nodes.Items[i].Status.Addresses[0].Address)
	}
	var namespaces v1.NamespaceList
	if err := from.List(ctx, &namespaces); err != nil {
		return nil, err
	}
	for i := range namespaces.Items {
		lines = append(lines, "namespace "+namespaces.Items[i].Name)
	}
	return lines, nil
}
