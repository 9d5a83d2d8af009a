package http

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/sourcetest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// before runs a source until its first set, and returns what the next process restores.
func before(t *testing.T, opts Options) sources.Restored {
	t.Helper()
	opts.Decoder = manifest.NewDecoder("node1")
	source, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sets, ended := make(chan config.SourceSet), make(chan error)
	go func() { ended <- source.Run(ctx, sets) }()
	set := <-sets
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return sourcetest.Restored(t, set)
}

// tagged answers like a file server: with a validator, and 304 if it is that of the
// request.
func (s *site) tagged(etag, body string) {
	s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.Header().Set("ETag", etag)
		if etag != "" && r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(nethttp.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, body)
	})
}

// forget forgets the requests so far.
func (s *site) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.statuses = nil, nil
}

// first waits for the first request and returns it with the status of its answer.
func (s *site) first(t *testing.T) (*nethttp.Request, int) {
	t.Helper()
	testutil.Until(t, "a request comes", func() bool { requests, _ := s.seen(); return len(requests) > 0 })
	requests, statuses := s.seen()
	return requests[0], statuses[0]
}

// silent fails if a set comes.
func (h *harness) silent() {
	h.t.Helper()
	select {
	case set := <-h.sets:
		h.t.Fatalf("%d pods are sent", len(set.Pods))
	case <-time.After(100 * time.Millisecond):
	}
}

func (h *harness) verdict(name string, state v1alpha1.ManifestState) {
	h.t.Helper()
	h.await(fmt.Sprintf("%s %s", name, state), func(s v1alpha1.SourceStatus) bool {
		return slices.ContainsFunc(s.HTTP.Manifests, func(m v1alpha1.Manifest) bool {
			return m.Name == name+"-node1" && m.State == state
		})
	})
}

// The first request after a restart has the validator of the last set. If nothing has
// changed, the restored pods are the first set.
func TestRestartWithoutAChange(t *testing.T) {
	const modified = "Sat, 21 Nov 2020 00:00:00 GMT"
	for name, test := range map[string]struct {
		validator, condition string
	}{"ETag": {"ETag", "If-None-Match"}, "time": {"Last-Modified", "If-Modified-Since"}} {
		t.Run(name, func(t *testing.T) {
			value := map[string]string{"ETag": `W/"1"`, "Last-Modified": modified}[test.validator]
			s := newSite(t, false)
			s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
				w.Header().Set(test.validator, value)
				if r.Header.Get(test.condition) == value {
					w.WriteHeader(nethttp.StatusNotModified)
					return
				}
				_, _ = io.WriteString(w, list(item("b", "1"), item("a", "1")))
			})
			restored := before(t, Options{URL: s.URL})
			s.forget()
			h := run(t, Options{URL: s.URL, Restored: restored, Period: time.Hour})
			pods := h.expect("a=1", "b=1")
			if !slices.Equal(pods, restored.Pods) {
				t.Error("the pods are not the restored pointers")
			}
			if r, status := s.first(t); r.Header.Get(test.condition) != value || status != nethttp.StatusNotModified {
				t.Errorf("the first request has %s %q and was answered with %d", test.condition, r.Header.Get(test.condition), status)
			}
			h.verdict("a", v1alpha1.ManifestAccepted)
			h.await("the request is a success", func(s v1alpha1.SourceStatus) bool { return !s.Degraded && s.HTTP.LastSuccess != nil })
		})
	}
}

// An answer that says that nothing changed survives a second restart, and so does an empty
// set.
func TestRestartTwice(t *testing.T) {
	for _, body := range []string{list(item("a", "1")), list()} {
		s := newSite(t, false)
		s.tagged(`"1"`, body)
		first := before(t, Options{URL: s.URL})
		second := before(t, Options{URL: s.URL, Restored: first})
		s.forget()
		_ = before(t, Options{URL: s.URL, Restored: second})
		if _, status := s.first(t); status != nethttp.StatusNotModified {
			t.Errorf("the third process was answered with %d", status)
		}
	}
}

// After a 304, the source continues as if it had read the answer itself.
func TestRestartThenAChange(t *testing.T) {
	s := newSite(t, false)
	s.tagged(`"1"`, list(item("a", "1"), item("b", "1")))
	restored := before(t, Options{URL: s.URL})
	h := run(t, Options{URL: s.URL, Restored: restored})
	h.expect("a=1", "b=1")
	s.tagged(`"2"`, list(item("a", "2"), bad("b")))
	// A request without a condition may come before.
	for pods := h.expectAny(); pods != "a=2 b=1"; pods = h.expectAny() {
		if pods != "a=1 b=1" {
			t.Fatalf("the pods are %s", pods)
		}
	}
	h.verdict("b", v1alpha1.ManifestHeld)
}

// expectAny waits for a set.
func (h *harness) expectAny() string {
	h.t.Helper()
	select {
	case set := <-h.sets:
		var got []string
		for _, p := range set.Pods {
			got = append(got, strings.TrimSuffix(p.Name, "-node1")+"="+p.Spec.Containers[0].Image)
		}
		return strings.Join(got, " ")
	case <-time.After(testutil.Patience):
		h.t.Fatalf("no set; status %+v", h.source.Status())
		return ""
	}
}

// An item that is bad at the start comes back in its last good version. The next start
// reads the answer again, because a 304 would hide the fault.
func TestRestartWithABadItem(t *testing.T) {
	s := newSite(t, false)
	s.tagged(`"1"`, list(item("a", "1"), item("b", "1"), item("c", "1")))
	restored := before(t, Options{URL: s.URL})
	s.tagged(`"2"`, list(item("a", "2"), bad("b")))
	for range 3 {
		s.forget()
		h := run(t, Options{URL: s.URL, Restored: restored, Period: time.Hour})
		set := <-h.sets
		if len(set.Pods) != 2 || set.Pods[0].Spec.Containers[0].Image != "2" || set.Pods[1] != restored.Pods[1] {
			t.Fatalf("the pods are %v", set.Pods)
		}
		h.verdict("b", v1alpha1.ManifestHeld)
		if _, status := s.first(t); status != nethttp.StatusOK {
			t.Errorf("the answer is %d", status)
		}
		restored = sourcetest.Restored(t, set)
	}
}

// An item whose name can't be read may be a restored pod that is missing.
func TestRestartWithAnItemWithoutAName(t *testing.T) {
	s := newSite(t, false)
	s.tagged(`"1"`, list(item("a", "1"), item("b", "1")))
	restored := before(t, Options{URL: s.URL})
	s.tagged(`"2"`, list(item("a", "1"), "1"))
	h := run(t, Options{URL: s.URL, Restored: restored})
	h.expect("a=1", "b=1")
	s.tagged(`"3"`, list(item("a", "1")))
	h.expect("a=1")
}

// No validator is handed over with an answer whose faults or warnings a 304 would hide, and
// none that is not reliable.
func TestValidatorsThatAreHandedOver(t *testing.T) {
	warned := strings.Replace(item("a", "1"), `"image":`, `"imagePullPolcy":"Always","image":`, 1)
	for name, test := range map[string]struct {
		body, etag string
		want       bool
	}{
		"good":       {list(item("a", "1")), `"1"`, true},
		"no ETag":    {list(item("a", "1")), "", false},
		"a bad item": {list(item("a", "1"), bad("b")), `"1"`, false},
		"no name":    {list(item("a", "1"), "1"), `"1"`, false},
		"the same":   {list(item("a", "1"), item("a", "2")), `"1"`, false},
		"a warning":  {list(warned), `"1"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false)
			s.tagged(test.etag, test.body)
			restored := before(t, Options{URL: s.URL})
			s.forget()
			_ = before(t, Options{URL: s.URL, Restored: restored})
			if r, _ := s.first(t); (r.Header.Get("If-None-Match") != "") != test.want {
				t.Errorf("the first request has %v", r.Header)
			}
		})
	}
}

// A validator is not used for another request or other pods: the server may have the same
// one for both.
func TestRestartWithAnotherRequest(t *testing.T) {
	s := newSite(t, false)
	s.tagged(`"1"`, list(item("a", "1")))
	header := nethttp.Header{"X-Group": {"one"}}
	const path = "/pods?key=s3cret"
	restored := before(t, Options{URL: s.URL + path, Header: header})
	other := restored
	other.Pods = nil
	for name, test := range map[string]struct {
		opts Options
		want bool
	}{
		"the same":       {Options{URL: s.URL + path, Header: header, Restored: restored}, true},
		"another path":   {Options{URL: s.URL + "/other", Header: header, Restored: restored}, false},
		"another query":  {Options{URL: s.URL + "/pods?key=2", Header: header, Restored: restored}, false},
		"another header": {Options{URL: s.URL + path, Header: nethttp.Header{"X-Group": {"two"}}, Restored: restored}, false},
		"other pods":     {Options{URL: s.URL + path, Header: header, Restored: other}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.forget()
			test.opts.Period = time.Hour
			run(t, test.opts).expect("a=1")
			if r, _ := s.first(t); (r.Header.Get("If-None-Match") != "") != test.want {
				t.Errorf("the first request has %v", r.Header)
			}
		})
	}
}

// Pods from another URL are not held: their UIDs depend on the URL.
func TestRestartWithAnotherURL(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1"), item("b", "1")))
	restored := before(t, Options{URL: s.URL + "/one"})
	s.serve(list(item("a", "1"), bad("b")))
	run(t, Options{URL: s.URL + "/two", Restored: restored}).expect("a=1")
	run(t, Options{URL: s.URL + "/one", Restored: restored}).expect("a=1", "b=1")
}

// A 304 without cause at the start is not believed, and removes nothing.
func TestRestartAndNotModifiedWithoutCause(t *testing.T) {
	t.Run("nothing was asked", func(t *testing.T) {
		s := newSite(t, false)
		s.serve(single("a", "1"))
		restored := before(t, Options{URL: s.URL})
		s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) { w.WriteHeader(nethttp.StatusNotModified) })
		h := run(t, Options{URL: s.URL, Restored: restored})
		h.degraded("304")
		h.silent()
		s.serve(single("a", "2"))
		h.expect("a=2")
	})
	t.Run("of another version", func(t *testing.T) {
		s := newSite(t, false)
		s.tagged(`"1"`, single("a", "1"))
		restored := before(t, Options{URL: s.URL})
		s.set(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"2"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(nethttp.StatusNotModified)
				return
			}
			_, _ = io.WriteString(w, single("a", "2"))
		})
		run(t, Options{URL: s.URL, Restored: restored}).expect("a=2")
	})
}

// An answer without a valid pod at the start sends nothing. The restored pods are held.
func TestRestartWithoutAValidPod(t *testing.T) {
	for name, body := range map[string]string{"garbage": "a: [", "empty": "", "bad items": list(bad("a"))} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false)
			good := list(item("a", "1"))
			s.tagged(`"1"`, good)
			restored := before(t, Options{URL: s.URL})
			s.tagged(`"2"`, body)
			h := run(t, Options{URL: s.URL, Restored: restored})
			h.degraded("")
			h.silent()
			s.tagged(`"1"`, good)
			h.expect("a=1")
			h.verdict("a", v1alpha1.ManifestAccepted)
		})
	}
}

// What is stored has no secret of the URL or the headers.
func TestAttributesHaveNoSecrets(t *testing.T) {
	s := newSite(t, false)
	s.tagged(`"1"`, single("a", "1"))
	target := strings.Replace(s.URL, "http://", "http://s3cret-user:s3cret-password@", 1) + "/?key=s3cret-query"
	restored := before(t, Options{URL: target, Header: nethttp.Header{"X-Secret": {"s3cret-header"}}})
	if text := fmt.Sprint(restored.Attributes); strings.Contains(text, "s3cret") || len(restored.Attributes) == 0 {
		t.Errorf("the attributes are %s", text)
	}
	sum := sha256.Sum256([]byte("s3cret-password"))
	if strings.Contains(fmt.Sprint(restored.Attributes), hex.EncodeToString(sum[:8])) {
		t.Error("the attributes have a digest of the password alone")
	}
}

// A server without validators: each start reads the whole answer.
func TestRestartWithoutAValidator(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1")))
	restored := before(t, Options{URL: s.URL})
	h := run(t, Options{URL: s.URL, Restored: restored})
	h.expect("a=1")
	h.silent()
}
