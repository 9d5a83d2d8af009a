package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// bad returns a pod without containers as an item of a list.
func bad(name string) string { return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{}}`, name) }

// An answer without a valid pod removes nothing, and the source is degraded. At the start
// it is not seen.
func TestAnAnswerWithoutAValidPod(t *testing.T) {
	for _, test := range []struct{ name, body, because string }{
		{"a Pod", strings.Replace(bad("web"), "{", `{"apiVersion":"v1","kind":"Pod",`, 1), "default/web: spec.containers: Required value"},
		{"a Pod of another name", strings.Replace(bad("other"), "{", `{"apiVersion":"v1","kind":"Pod",`, 1), "default/other: spec.containers: Required value"},
		{"a list", list(bad("x"), bad("web"), "1"), "default/x: spec.containers: Required value; and 2 more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, false)
			s.serve(test.body)
			h := run(t, Options{URL: s.URL})
			h.degraded(test.because)
			s.serve(list(item("web", "1"), item("db", "1")))
			h.expect("db=1", "web=1")
			h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
			s.serve(test.body)
			h.degraded(test.because)
			states := make(map[string]v1alpha1.ManifestState)
			for _, m := range h.source.Status().HTTP.Manifests {
				states[m.Name] = m.State
			}
			if states["web-node1"] != v1alpha1.ManifestHeld || states["db-node1"] != v1alpha1.ManifestHeld {
				t.Errorf("the verdicts are %v, want web and db Held", states)
			}
			s.serve(list(item("web", "1")))
			h.expect("web=1")
			h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded && len(s.HTTP.Manifests) == 1 })
		})
	}
}

// applier applies bodies to a podSet.
type applier struct {
	*testing.T
	pods *podSet
}

func (a applier) apply(body string) error {
	a.Helper()
	items, err := manifest.NewDecoder("node1").DecodeURL("http://example.com/", []byte(body))
	if err != nil {
		a.Fatal(err)
	}
	_, err = a.pods.apply(a.Context(), []byte(body), items, nil)
	return err
}

func (a applier) expect(want ...string) {
	a.Helper()
	var names []string
	for _, p := range a.pods.serving() {
		names = append(names, strings.TrimSuffix(p.Name, "-node1"))
	}
	if !slices.Equal(names, want) {
		a.Errorf("pods %q, want %q", names, want)
	}
}

// Pods are held if they may be the items whose name can't be read. Their number stays
// limited while others come and go.
func TestHeldPodsDoNotAddUp(t *testing.T) {
	a := applier{t, newPodSet()}
	for _, step := range []struct {
		body string
		want []string
	}{
		{list(item("a", "1"), item("b", "1"), item("c", "1")), []string{"a", "b", "c"}},
		{list(item("a", "1"), "1"), []string{"a", "b", "c"}}, // item 1 may be b or c
		{list(item("a", "2"), "1"), []string{"a", "b", "c"}}, // still
		{list(item("d", "1"), "1"), []string{"a", "d"}},      // now it may be a, too
		{list(item("e", "1"), "1"), []string{"d", "e"}},
		{list(item("e", "1"), item("d", "1"), "1"), []string{"d", "e"}},
		{list(item("e", "1"), "1", "2"), []string{"d", "e"}},
		{list(item("f", "1"), "1", "2"), []string{"d", "e", "f"}}, // two pods are missing, and two items have no name
		{list(item("f", "1")), []string{"f"}},
	} {
		if err := a.apply(step.body); err != nil {
			t.Error(err)
		}
		a.expect(step.want...)
	}
	for i := range 50 {
		if err := a.apply(list(item(fmt.Sprint("x", i), "1"), "1")); err != nil {
			t.Error(err)
		}
		if n := len(a.pods.pods); n > 2 {
			t.Fatalf("%d pods are kept after %d answers", n, i)
		}
	}
}

// logged collects the log at the default verbosity.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) context() context.Context {
	return klog.NewContext(context.Background(), funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{}))
}

// read returns the lines with the text, and the size of all lines in bytes.
func (l *logged) read(text string) (found []string, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		bytes += len(line)
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found, bytes
}

// await waits for a line with the text.
func (l *logged) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(testutil.Patience); ; {
		if lines, _ := l.read(text); len(lines) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is logged with %s in it", text)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Thousands of invalid pods of a server, whose names change each time, fill neither the
// log nor the status.
func TestAFloodOfInvalidPods(t *testing.T) {
	const many = 300
	s := newSite(t, false)
	flood := func(generation int) string {
		items := []string{item("good", fmt.Sprint(generation))}
		for i := range many {
			items = append(items, bad(fmt.Sprintf("g%d-%d-%s", generation, i, strings.Repeat("x", 100))))
		}
		return list(items...)
	}
	var log logged
	s.serve(flood(0))
	h := runWith(t, log.context(), Options{URL: s.URL})
	for generation := range 3 {
		s.serve(flood(generation))
		h.expect(fmt.Sprintf("good=%d", generation))
		h.await("the verdicts", func(status v1alpha1.SourceStatus) bool {
			return status.HTTP.ManifestsOmitted[v1alpha1.ManifestRejected] == many-200
		})
		if n := len(h.source.Status().HTTP.Manifests); n != 201 {
			t.Errorf("%d verdicts are shown", n)
		}
	}
	log.await(t, `"count"=100`)
	lines, bytes := log.read("Manifest not usable")
	if len(lines) == 0 || len(lines) > 210 || bytes > 200_000 {
		t.Errorf("%d lines on manifests, %d bytes in total", len(lines), bytes)
	}
	if counts, _ := log.read(`"count"=100`); len(counts) != 1 {
		t.Errorf("%d lines have the number of further verdicts", len(counts))
	}
	if n := len(h.source.pods.pods); n != 1 {
		t.Errorf("%d pods are kept", n)
	}
}

// Very long names and messages are truncated in the status and the log.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("A", 1<<17)
	s := newSite(t, false)
	s.serve(list(item("a", "1"), item(long, "1"), strings.Replace(item("b", "1"), `"c"`, `"`+long+`"`, 1)))
	var log logged
	h := runWith(t, log.context(), Options{URL: s.URL})
	h.expect("a=1")
	s.serve(single(long, "1"))
	h.degraded("default/AAAA")
	status := h.source.Status()
	for _, m := range status.HTTP.Manifests {
		if len(m.Name)+len(m.Message) > 5000 {
			t.Errorf("a verdict has a name of %d bytes and a message of %d", len(m.Name), len(m.Message))
		}
	}
	if len(status.LastError) > 2100 || !strings.Contains(status.LastError, "bytes)") {
		t.Errorf("the error has %d bytes", len(status.LastError))
	}
	log.await(t, "Failed to read the manifest URL")
	if lines, bytes := log.read("Manifest not usable"); len(lines) < 2 || bytes > 20_000 {
		t.Errorf("%d lines, %d bytes are logged", len(lines), bytes)
	}
}

// A verdict on an item has the lines around its fault in the answer, for the first ones.
func TestLinesAroundAFaultOfAnItem(t *testing.T) {
	const good = "- metadata: {name: %[1]s}\n  spec:\n    containers:\n    - name: c\n      image: i\n"
	const bad = "- metadata: {name: %[1]s}\n  spec:\n    containers:\n    - name: c\n      image: 1\n"
	body := func(items ...string) string {
		return "apiVersion: v1\nkind: PodList\nitems:\n" + strings.Join(items, "")
	}
	a := applier{t, newPodSet()}
	if err := a.apply(body(fmt.Sprintf(good, "a"))); err != nil {
		t.Fatal(err)
	}
	if err := a.apply(body(fmt.Sprintf(bad, "a"), fmt.Sprintf(bad, "b"), fmt.Sprintf(good, "c"))); err != nil {
		t.Fatal(err)
	}
	want := map[string]*v1alpha1.ManifestFault{
		"a-node1": {Line: 8, FirstLine: 5, Lines: []string{"  spec:", "    containers:", "    - name: c", "      image: 1", "- metadata: {name: b}", "  spec:", "    containers:"}},
		"b-node1": {Line: 13, FirstLine: 10, Lines: []string{"  spec:", "    containers:", "    - name: c", "      image: 1", "- metadata: {name: c}", "  spec:", "    containers:"}},
		"c-node1": nil,
	}
	got := make(map[string]*v1alpha1.ManifestFault)
	for _, v := range a.pods.verdicts().Shown() {
		got[v.Name] = v.Fault
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	items := []string{fmt.Sprintf(good, "z")}
	for i := range 2 * maxFaultLines {
		items = append(items, fmt.Sprintf(bad, fmt.Sprint("p", i)))
	}
	if err := a.apply(body(items...)); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, v := range a.pods.verdicts().Shown() {
		if v.Fault != nil {
			kept++
		}
	}
	if kept != maxFaultLines {
		t.Errorf("the lines of %d faults are kept", kept)
	}
}

// Decoding of an answer stops when the context is done.
func TestTheEndInTheMiddleOfAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	decoded := 0
	_, err := newPodSet().apply(ctx, nil, func(yield func(manifest.Item) bool) {
		for decoded = 1; yield(manifest.Item{Namespace: "default", Name: fmt.Sprint(decoded), Pod: &v1.Pod{}}); decoded++ {
			if decoded == 10 {
				cancel()
			}
		}
	}, nil)
	if !errors.Is(err, context.Canceled) || decoded != 11 {
		t.Errorf("%d items were decoded, and the error is %v", decoded, err)
	}
}

// A server that alternates between good and bad answers fills no log. The status has each
// state.
func TestAlternatingAnswersLogABoundedNumberOfLines(t *testing.T) {
	before := retries
	t.Cleanup(func() { retries = before })
	retries.Duration = time.Millisecond
	s := newSite(t, false)
	var polls atomic.Int64
	answers := []string{single("a", "1"), single("a", "")}
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		_, _ = io.WriteString(w, answers[(polls.Add(1)-1)%2])
	})
	var log logged
	h := runWith(t, log.context(), Options{URL: s.URL})
	h.expect("a=1")
	for range 20 {
		h.degraded("image")
		h.await("not degraded", func(status v1alpha1.SourceStatus) bool { return !status.Degraded })
	}
	h.await("many polls", func(v1alpha1.SourceStatus) bool { requests, _ := s.seen(); return len(requests) >= 400 })
	lines, _ := log.read("manifest URL")
	if n := len(lines); n < 10 || n > 25 {
		t.Errorf("%d lines of 400 polls", n)
	}
	if verdicts, _ := log.read("Manifest "); len(verdicts) > 250 {
		t.Errorf("%d lines on the manifest of 400 polls", len(verdicts))
	}
}

// The verdicts are those of the current answer also if it is one of before, and the
// answer between them had no valid pod.
func TestVerdictsAfterAnAnswerWithoutAValidPod(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1")))
	h := run(t, Options{URL: s.URL})
	h.expect("a=1")
	h.verdict("a", v1alpha1.ManifestAccepted)
	s.serve(list(bad("a")))
	h.verdict("a", v1alpha1.ManifestHeld)
	s.serve(list(item("a", "1")))
	h.verdict("a", v1alpha1.ManifestAccepted)
}
