package conformance

import (
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/http"
)

func kubeletURLPods(t *testing.T, url string) []*v1.Pod {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	defer cancel()
	cfg := kubeletconfig.NewPodConfig(&record.FakeRecorder{}, noSLI{})
	kubeletconfig.NewSourceURL(klog.Logger{}, url, nethttp.Header{}, node, time.Hour, cfg.Channel(ctx, "http"))
	select {
	case u := <-cfg.Updates():
		return u.Pods
	case <-time.After(10 * time.Second):
		t.Fatal("the kubelet took nothing")
		return nil
	}
}

func ourURLPods(t *testing.T, url string) []*v1.Pod {
	t.Helper()
	source, err := http.New(http.Options{URL: url, Decoder: manifest.NewDecoder(node)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg := config.NewPodConfig()
	sets := cfg.Channel("http")
	var running sync.WaitGroup
	running.Go(func() { _ = cfg.Run(ctx) })
	running.Go(func() { _ = source.Run(ctx, sets) })
	defer running.Wait()
	defer cancel()
	return (<-cfg.Updates()).Pods
}

// A Pod and a PodList, in YAML and JSON, give the kubelet's pods; an item's own kind
// does not matter.
func TestURLsGiveTheKubeletsPods(t *testing.T) {
	a := fmt.Sprintf(podHead, "a")
	indented := func(s string) string {
		return "- " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
	}
	list := "apiVersion: v1\nkind: PodList\nitems:\n"
	for name, body := range map[string]string{
		"a pod":             a,
		"a pod in JSON":     `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		"a list":            list + indented(a) + indented(fmt.Sprintf(podHead, "b")+"  hostNetwork: true\n"),
		"without kinds":     list + "- metadata: {name: a}\n  spec: {containers: [{name: c, image: i}]}\n",
		"an empty list":     list[:len(list)-1] + " []\n",
		"with own UIDs":     list + "- metadata: {name: a, uid: x, namespace: ns}\n  spec: {containers: [{name: c, image: i}]}\n",
		"a list in JSON":    `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`,
		"with a toleration": a + "  tolerations: [{operator: Exists, effect: NoExecute}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			theirs, ours := byName(kubeletURLPods(t, server.URL)), byName(ourURLPods(t, server.URL))
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("pods (-kubelet +podconfigd):\n%s", diff)
			}
			if len(ours) == 0 && name != "an empty list" {
				t.Error("there are none")
			}
		})
	}
}
