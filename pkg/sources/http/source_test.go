package http

import (
	"io"
	"net"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

func TestAPodAndAPodList(t *testing.T) {
	s := newSite(t, false)
	s.serve(single("web", "1"))
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	s.serve("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: web}\n  spec: {containers: [{name: c, image: '2'}]}\n- metadata: {name: db}\n  spec: {containers: [{name: c, image: '1'}]}\n")
	first := h.expect("db=1", "web=2")
	s.serve(list(item("web", "3"), item("db", "1")))
	if second := h.expect("db=1", "web=3"); second[0] != first[0] {
		t.Error("db is another pointer, though nothing in it changed")
	}
	s.serve(list())
	h.expect()
}

// For any failure, the last pods stay, and the status has the error until an answer is
// good.
func TestFailuresHoldTheLastSet(t *testing.T) {
	huge := strings.Repeat("x", manifest.MaxLength)
	for _, test := range []struct {
		name, because string
		answer        nethttp.HandlerFunc
	}{
		{"no length", "the answer is empty", func(nethttp.ResponseWriter, *nethttp.Request) {}},
		{"a 500", "500 Internal", func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusInternalServerError) }},
		{"a 404", "404 Not Found", func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusNotFound) }},
		{"a 304 nobody asked for", "304 Not Modified", func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusNotModified) }},
		{"garbage", "neither YAML nor JSON", func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, "a: [") }},
		{"a Service", "expected apiVersion v1, kind Pod", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`)
		}},
		{"no items", "items: Required", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"PodList"}`)
		}},
		{"too large", "10 MiB", func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, huge) }},
		{"cut off", "unexpected EOF", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
			_ = nethttp.NewResponseController(w).Flush()
			panic(nethttp.ErrAbortHandler)
		}},
		{"a redirect loop", "redirected 10 times", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			nethttp.Redirect(w, r, "/", nethttp.StatusFound)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, false)
			s.serve(single("web", "1"))
			h := run(t, Options{URL: s.URL})
			h.expect("web=1")
			s.set(test.answer)
			h.degraded(test.because)
			s.serve(single("web", "2"))
			h.expect("web=2")
			h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded && s.LastError == "" })
		})
	}
}

// A failure at the start sends nothing: the source is not seen.
func TestAFailureAtTheStartSendsNothing(t *testing.T) {
	s := newSite(t, false)
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusServiceUnavailable) })
	h := run(t, Options{URL: s.URL})
	h.degraded("503")
	s.serve(list())
	h.expect()
}

// A → failure → A, and A → garbage → garbage: nothing is lost, and garbage is not stored
// as read.
func TestWhatWasServedBeforeComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for polls")
	}
	s := newSite(t, false)
	s.serve(single("web", "1"))
	h := run(t, Options{URL: s.URL})
	h.expect("web=1")
	s.serve("")
	h.degraded("empty")
	s.serve(single("web", "1"))
	h.await("healthy", func(s v1alpha1.SourceStatus) bool { return !s.Degraded })
	s.serve("a: [")
	h.degraded("neither")
	_, before := s.seen()
	h.await("more requests", func(st v1alpha1.SourceStatus) bool {
		_, now := s.seen()
		return len(now) > len(before) && st.Degraded
	})
	s.serve(list())
	h.expect()
	s.serve(single("web", "1"))
	h.expect("web=1")
}

func TestEachItemIsJudgedForItself(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1"), item("b", "1")))
	h := run(t, Options{URL: s.URL})
	h.expect("a=1", "b=1")
	verdict := func(name string, state v1alpha1.ManifestState, message string) func(v1alpha1.SourceStatus) bool {
		return func(s v1alpha1.SourceStatus) bool {
			for _, v := range s.HTTP.Manifests {
				if strings.HasPrefix(v.Path+v.Name, name) && v.State == state && strings.Contains(v.Message, message) {
					return true
				}
			}
			return false
		}
	}
	s.serve(list(item("a", "2"), `{"metadata":{"name":"b"},"spec":{}}`, `{"metadata":{"name":"c"},"spec":{"containers":5}}`))
	h.expect("a=2", "b=1")
	h.await("b held", verdict("b", v1alpha1.ManifestHeld, "spec.containers: Required value; its last good pod is kept"))
	h.await("c rejected", verdict("c-node1", v1alpha1.ManifestRejected, "spec.containers"))
	s.serve(list(item("a", "3"), item("b", "2"), item("a", "4")))
	h.expect("a=3", "b=2")
	h.await("the second a shadowed", verdict("items[2]a-node1", v1alpha1.ManifestShadowed, "the pod's name is taken by an earlier item"))
	// An item without a readable name may be the missing pod.
	s.serve(list(item("a", "5"), `"what"`))
	h.expect("a=5", "b=2")
	h.await("b held", verdict("b", v1alpha1.ManifestHeld, "can't be read"))
	s.serve(list(item("a", "5")))
	h.expect("a=5")
	uid := func(name string) string {
		return strings.Replace(item(name, "1"), `"name":`, `"uid":"u","name":`, 1)
	}
	s.serve(list(uid("x"), uid("y")))
	h.expect("x=1")
	h.await("y shadowed", verdict("y-node1", v1alpha1.ManifestShadowed, "the pod's UID is taken by default/x"))
}

// After failures, the source waits longer each time, but never longer than its period: a server that is well
// again is read as soon as by the kubelet. The server can ask for more.
func TestBackoff(t *testing.T) {
	for _, period := range []time.Duration{500 * time.Millisecond, DefaultPeriod, time.Hour} {
		s, err := New(Options{URL: "http://127.0.0.1:1", Decoder: manifest.NewDecoder("node1"), Period: period})
		if err != nil {
			t.Fatal(err)
		}
		backoff, full := retries, time.Second
		for failures := 1; failures < 100; failures++ {
			if pause := s.pause(&backoff, answer{}); pause < min(full/2, period) || pause > min(full, period) {
				t.Errorf("period %v, after %d failures: %v, want %v to %v", period, failures, pause, min(full/2, period), min(full, period))
			}
			full = min(2*full, time.Minute)
		}
		if pause := s.pause(&backoff, answer{retryAfter: 2 * time.Hour}); pause != 2*time.Hour {
			t.Errorf("asked for two hours, it waits %v", pause)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	asked := make(chan time.Time, 2)
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		asked <- time.Now()
		s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			asked <- time.Now()
			_, _ = io.WriteString(w, list())
		})
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(nethttp.StatusTooManyRequests)
	})
	run(t, Options{URL: s.URL, Period: time.Hour}).expect()
	first := <-asked
	if waited := (<-asked).Sub(first); waited < time.Second {
		t.Errorf("the next attempt came after %v", waited)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, opts := range []Options{
		{URL: "ftp://example.com"}, {URL: "example.com/pods"}, {URL: "http://"}, {URL: "http://exa mple"},
		{URL: "http://example.com", CertFile: "only"},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
	for _, target := range []string{"ftp://user:s3cret@example.com?key=s3cret", "https://user:s3cr%et@example.com/?key=s3cret"} {
		if _, err := New(Options{URL: target}); err == nil || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("the error has a secret in it: %v", err)
		}
	}
}

// A server that does not answer fails after the timeout, and does not delay the end of
// Run.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h := run(t, Options{URL: "http://" + l.Addr().String()})
	conn, err := l.Accept() // the source sends its request, and run's cleanup measures the end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if h.source.Status().Degraded {
		t.Error("degraded before the time was up")
	}
}

// For any sequence of bodies, the pods in the set have distinct names and UIDs. A bad
// body changes nothing, and neither does a repeated one.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(list(item("a", "1"), item("b", "1"))), []byte(list(item("a", "2"), `{"metadata":{"name":"b"}}`)))
	f.Add([]byte(list(item("a", "1"), item("a", "2"))), []byte(list("{}", item("b", "1"))))
	f.Add([]byte(single("a", "1")), []byte(""))
	f.Add([]byte(list(`{"metadata":{"name":"a","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		`{"metadata":{"name":"b","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)), []byte(list()))
	decoder := manifest.NewDecoder("node")
	f.Fuzz(func(t *testing.T, first, second []byte) {
		pods := newPodSet()
		for _, body := range [][]byte{first, second, first, second} {
			before := pods.serving()
			items, err := decoder.DecodeURL("http://example.com/", body)
			if err != nil {
				continue
			}
			changed, err := pods.apply(t.Context(), body, items, nil)
			now := pods.serving()
			if err != nil && changed {
				t.Errorf("it can't be used, and changes something: %v", err)
			}
			if changed == slices.Equal(before, now) {
				t.Errorf("changed %t, from %d pods to %d", changed, len(before), len(now))
			}
			names, uids := make(map[string]bool), make(map[types.UID]bool)
			for _, p := range now {
				if names[p.Namespace+"/"+p.Name] || uids[p.UID] || p.UID == "" {
					t.Errorf("pod %s/%s, UID %q, is there twice", p.Namespace, p.Name, p.UID)
				}
				names[p.Namespace+"/"+p.Name], uids[p.UID] = true, true
			}
			if items, err = decoder.DecodeURL("http://example.com/", body); err != nil {
				t.Errorf("the same body again: %v", err)
			} else if changed, _ := pods.apply(t.Context(), body, items, nil); changed {
				t.Error("the same body again changes something")
			}
			if got := len(pods.verdicts().Shown()); got < len(now) {
				t.Errorf("%d verdicts on %d pods", got, len(now))
			}
		}
	})
}

// Of two pods with one UID, one that is in the last answer counts, whatever their names are. The status says
// of the other that its UID is taken.
func TestAMissingPodGivesWayToOneWithItsUID(t *testing.T) {
	for _, names := range [][2]string{{"a", "z"}, {"z", "a"}} {
		pods := newPodSet()
		gone, present := names[0], names[1]
		apply := func(items ...string) {
			t.Helper()
			all, err := manifest.NewDecoder("node1").DecodeURL("http://x", []byte(list(items...)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pods.apply(t.Context(), nil, all, nil); err != nil {
				t.Fatal(err)
			}
		}
		item := func(name string) string {
			return `{"metadata":{"name":"` + name + `","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
		}
		const nameless = `{"metadata":{"name":5}}`
		apply(item(gone))
		apply(item(present), nameless) // the missing pod may be the one whose name can't be read
		if got := pods.serving(); len(got) != 1 || got[0].Name != present+"-node1" {
			t.Errorf("%s comes, %s is missing: %d pods count, the first is %s", present, gone, len(got), got[0].Name)
		}
		for _, v := range pods.verdicts().Shown() {
			switch {
			case v.Name == present+"-node1" && v.State != v1alpha1.ManifestAccepted,
				v.Name == gone+"-node1" && (v.State != v1alpha1.ManifestShadowed || !strings.Contains(v.Message, "default/"+present)):
				t.Errorf("verdict %+v", v)
			}
		}
	}
}
