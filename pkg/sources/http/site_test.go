package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// item returns a pod as an item of a list.
func item(name, image string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":%q}]}}`, name, image)
}

func list(items ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}

func single(name, image string) string {
	return strings.Replace(item(name, image), "{", `{"apiVersion":"v1","kind":"Pod",`, 1)
}

// site is a server whose answers the test sets.
type site struct {
	*httptest.Server
	mu       sync.Mutex
	answer   nethttp.HandlerFunc
	requests []*nethttp.Request
	statuses []int
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	nethttp.ResponseWriter
	status int
}

func (r *statusRecorder) Unwrap() nethttp.ResponseWriter { return r.ResponseWriter }

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func newSite(t *testing.T, secure bool) *site {
	t.Helper()
	s := &site{}
	handler := nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		recorder := &statusRecorder{ResponseWriter: w, status: nethttp.StatusOK}
		answer(recorder, r)
		s.mu.Lock()
		s.requests, s.statuses = append(s.requests, r), append(s.statuses, recorder.status)
		s.mu.Unlock()
	})
	s.Server = httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = discard
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *site) set(answer nethttp.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// serve answers with the body from now on.
func (s *site) serve(body string) {
	s.set(func(w nethttp.ResponseWriter, _ *nethttp.Request) { _, _ = io.WriteString(w, body) })
}

func (s *site) seen() (requests []*nethttp.Request, statuses []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(requests, s.requests...), append(statuses, s.statuses...)
}

// harness is a running source.
type harness struct {
	t      *testing.T
	source *Source
	sets   chan config.SourceSet
}

func run(t *testing.T, opts Options) *harness {
	t.Helper()
	return runWith(t, context.Background(), opts)
}

// runWith is run with a context that has the test's logger.
func runWith(t *testing.T, ctx context.Context, opts Options) *harness {
	t.Helper()
	if opts.Decoder == nil {
		opts.Decoder = manifest.NewDecoder("node1")
	}
	if opts.Period == 0 {
		opts.Period = 5 * time.Millisecond
	}
	if opts.timeout == 0 {
		opts.timeout = time.Hour // the end of Run does not wait for it
	}
	source, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, source: source, sets: make(chan config.SourceSet)}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := source.Run(ctx, h.sets); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(func() {
		begin := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(begin); took > testutil.Patience {
			t.Errorf("Run took %v to end", took)
		}
	})
	return h
}

// expect waits for a set of these pods, "name=image".
func (h *harness) expect(want ...string) []*v1.Pod {
	h.t.Helper()
	select {
	case set := <-h.sets:
		var got []string
		for _, p := range set.Pods {
			got = append(got, strings.TrimSuffix(p.Name, "-node1")+"="+p.Spec.Containers[0].Image)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			h.t.Fatalf("got %v, want %v", got, want)
		}
		return set.Pods
	case <-time.After(testutil.Patience):
		h.t.Fatalf("no set for %v, want %v; status %+v", testutil.Patience, want, h.source.Status())
		return nil
	}
}

// await waits until the status matches the function. No set may come.
func (h *harness) await(what string, ok func(v1alpha1.SourceStatus) bool) {
	h.t.Helper()
	deadline := time.After(testutil.Patience)
	for !ok(h.source.Status()) {
		select {
		case set := <-h.sets:
			h.t.Fatalf("waiting for %s: a set of %d pods came", what, len(set.Pods))
		case <-deadline:
			h.t.Fatalf("%s: not within %v; status %+v", what, testutil.Patience, h.source.Status())
		case <-time.After(time.Millisecond):
		}
	}
}

func (h *harness) degraded(because string) {
	h.t.Helper()
	h.await("degraded for "+because, func(s v1alpha1.SourceStatus) bool {
		return s.Degraded && s.DegradedSince != nil && strings.Contains(s.LastError, because)
	})
}
