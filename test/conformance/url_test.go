package conformance

import (
	"context"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/http"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
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
	case <-time.After(testutil.Patience):
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

// A Pod and a PodList, as YAML and JSON, give the kubelet's pods, without the kind that the
// kubelet keeps of an item.
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
		"a kind":            list + "- {kind: Else, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}\n",
		"a list in JSON":    `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`,
		"with a toleration": a + "  tolerations: [{operator: Exists, effect: NoExecute}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
				_, _ = io.WriteString(w, body)
			}))
			defer server.Close()
			theirs, ours := byName(kubeletURLPods(t, server.URL)), byName(ourURLPods(t, server.URL))
			for _, pod := range theirs {
				pod.TypeMeta = metav1.TypeMeta{}
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("pods (-kubelet +podconfigd):\n%s", diff)
			}
			if len(ours) == 0 && name != "an empty list" {
				t.Error("there are none")
			}
		})
	}
}

// The effect of each shape of answer, at the start and after a good one. An empty result
// means that the source is not seen, or keeps its pods.
func TestURLAnswersOfEachShape(t *testing.T) {
	t.Parallel()
	const seen, removed, nothing = "ADD", "REMOVE a=1", ""
	type says struct{ atTheStart, later string }
	for _, test := range []struct {
		name, body      string
		kubelet, ours   says
		differsByDesign bool
	}{
		{name: "a Pod that is invalid", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}`},
		{name: "a Pod of another name that is invalid", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"c"}]}}`},
		{name: "a Pod that can't be decoded", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":5}}`},
		{name: "a Pod without a name", body: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{name: "a Pod that refers to a ConfigMap", body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","envFrom":[{"configMapRef":{"name":"m"}}]}]}}`},
		{name: "a PodList of one bad Pod", body: podtest.List(podtest.Item("a", ""))},
		{name: "a PodList of bad Pods of other names", body: podtest.List(podtest.Item("b", ""), podtest.Item("c", ""))},
		{name: "a PodList of bad Pods, one without a name", body: podtest.List(podtest.Item("b", ""), `{"metadata":{}}`)},
		{name: "an empty PodList", body: podtest.List(), kubelet: says{seen, removed}, ours: says{seen, removed}},
		{name: "a PodList without items", body: `{"apiVersion":"v1","kind":"PodList"}`, kubelet: says{seen, removed}, differsByDesign: true},
		{name: "an empty body", body: "", kubelet: says{seen, removed}, differsByDesign: true},
		{name: "a body of white space", body: " \n"},
		{name: "another kind", body: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`},
		{name: "a List", body: `{"apiVersion":"v1","kind":"List","items":[` + podtest.Item("a", "2") + `]}`},
		{name: "another version", body: strings.Replace(podtest.List(podtest.Item("a", "2")), `"v1"`, `"v2"`, 1)},
		{name: "half an answer", body: podtest.List(podtest.Item("a", "2"))[:40]},
		{name: "no YAML", body: "kind: ["},
	} {
		if !test.differsByDesign && test.kubelet != test.ours {
			t.Errorf("%s: what is meant to be the same differs", test.name)
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			check := func(t *testing.T, kubelet, ours *side, wantOfKubelet, wantOfOurs string) {
				t.Helper()
				for side, want := range map[*side]string{kubelet: wantOfKubelet, ours: wantOfOurs} {
					if want == nothing {
						side.silent(t)
						continue
					}
					side.expect(t, want)
				}
			}
			t.Run("at the start", func(t *testing.T) {
				t.Parallel()
				kubelet, ours := onURL(t, newSite(t, test.body).URL, logr.Discard())
				check(t, kubelet, ours, test.kubelet.atTheStart, test.ours.atTheStart)
			})
			t.Run("later", func(t *testing.T) {
				t.Parallel()
				s := newSite(t, podtest.List(podtest.Item("a", "1")))
				kubelet, ours := onURL(t, s.URL, logr.Discard())
				kubelet.expect(t, "ADD a=1")
				ours.expect(t, "ADD a=1")
				s.serve(test.body)
				check(t, kubelet, ours, test.kubelet.later, test.ours.later)
			})
		})
	}
}

// site is a server with the test's answers.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	body string
}

func newSite(t *testing.T, body string) *site {
	t.Helper()
	s := &site{body: body}
	s.Server = httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(w, s.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) serve(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = body
}

func onURL(t *testing.T, url string, logger logr.Logger) (kubelet, ours *side) {
	t.Helper()
	kubelet = kubeletSide(t, func(ctx context.Context, c *kubeletconfig.PodConfig) {
		kubeletconfig.NewSourceURL(logger, url, nethttp.Header{}, node, soon, c.Channel(ctx, "http"))
	})
	source, err := http.New(http.Options{URL: url, Decoder: manifest.NewDecoder(node), Period: soon})
	must(t, err)
	return kubelet, ourSide(t, "http", source.Run)
}

func TestDifferenceBodyOfNoLength(t *testing.T) {
	t.Parallel()
	a := podtest.List(podtest.Item("a", "1"))
	s := newSite(t, a)
	kubelet, ours := onURL(t, s.URL, logr.Discard())
	kubelet.expect(t, "ADD a=1")
	ours.expect(t, "ADD a=1")
	s.serve("")
	kubelet.expect(t, "REMOVE a=1")
	ours.silent(t)
	s.serve(a)
	kubelet.silent(t) // the kubelet takes it for the last answer
	ours.silent(t)    // the pod was never removed
	s.serve(podtest.List())
	kubelet.silent(t)
	ours.expect(t, "REMOVE a=1")
}

func TestDifferenceGarbageIsSuccessfullyRead(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, args)
	}, funcr.Options{})
	said := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(log, func(line string) bool { return strings.Contains(line, text) })
	}
	s := newSite(t, "kind: [")
	kubelet, ours := onURL(t, s.URL, logger)
	deadline := time.Now().Add(testutil.Patience)
	for !said("Successfully read pods from URL") {
		if time.Now().After(deadline) {
			t.Fatalf("the kubelet does not say that it read garbage: %q", log)
		}
		<-time.After(10 * time.Millisecond)
	}
	kubelet.silent(t)
	ours.silent(t) // the source is degraded, see TestFailuresHoldTheLastSet in pkg/sources/http
}

func TestDifferenceOneBadPodInAList(t *testing.T) {
	t.Parallel()
	s := newSite(t, podtest.List(podtest.Item("good", "1"), podtest.Item("bad", "")))
	kubelet, ours := onURL(t, s.URL, logr.Discard())
	ours.expect(t, "ADD good=1")
	kubelet.silent(t)
}
