package http

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// If nothing has changed, the first set has the restored pods, and there is no other.
func TestRestartWithoutAChange(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("b", "1"), item("a", "1")))
	restored := before(t, Options{URL: s.URL})
	h := run(t, Options{URL: s.URL, Restored: restored, Period: time.Hour})
	h.expect("a=1", "b=1")
	h.verdict("a", v1alpha1.ManifestAccepted)
	h.await("the request is a success", func(s v1alpha1.SourceStatus) bool { return !s.Degraded && s.HTTP.LastSuccess != nil })
	h.silent()
}

// An item that is bad at the start comes back in its last good version.
func TestRestartWithABadItem(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1"), item("b", "1"), item("c", "1")))
	restored := before(t, Options{URL: s.URL})
	s.serve(list(item("a", "2"), bad("b")))
	for range 3 {
		h := run(t, Options{URL: s.URL, Restored: restored, Period: time.Hour})
		set := <-h.sets
		if len(set.Pods) != 2 || set.Pods[0].Spec.Containers[0].Image != "2" || set.Pods[1] != restored.Pods[1] {
			t.Fatalf("the pods are %v", set.Pods)
		}
		h.verdict("b", v1alpha1.ManifestHeld)
		restored = sourcetest.Restored(t, set)
	}
}

// An item whose name can't be read may be a restored pod that is missing.
func TestRestartWithAnItemWithoutAName(t *testing.T) {
	s := newSite(t, false)
	s.serve(list(item("a", "1"), item("b", "1")))
	restored := before(t, Options{URL: s.URL})
	s.serve(list(item("a", "1"), "1"))
	h := run(t, Options{URL: s.URL, Restored: restored})
	h.expect("a=1", "b=1")
	s.serve(list(item("a", "1")))
	h.expect("a=1")
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

// An answer without a valid pod at the start sends nothing. The restored pods are held.
func TestRestartWithoutAValidPod(t *testing.T) {
	for name, body := range map[string]string{"garbage": "a: [", "empty": "", "bad items": list(bad("a"))} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false)
			good := list(item("a", "1"))
			s.serve(good)
			restored := before(t, Options{URL: s.URL})
			s.serve(body)
			h := run(t, Options{URL: s.URL, Restored: restored})
			h.degraded("")
			h.silent()
			s.serve(good)
			h.expect("a=1")
			h.verdict("a", v1alpha1.ManifestAccepted)
		})
	}
}

// What is stored has no secret of the URL or the headers.
func TestAttributesHaveNoSecrets(t *testing.T) {
	s := newSite(t, false)
	s.serve(single("a", "1"))
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
