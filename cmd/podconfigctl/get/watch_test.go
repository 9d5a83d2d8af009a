package get

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watchDaemon answers lists and watches of pods, each with the next of its answers. When there is
// none left, it calls end and says nothing more.
type watchDaemon struct {
	mu             sync.Mutex
	lists, watches []string
	end            context.CancelFunc
	queries        []string
}

func (d *watchDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := func(answers *[]string) string {
		if len(*answers) == 0 {
			d.end()
			return ""
		}
		answer := (*answers)[0]
		*answers = (*answers)[1:]
		return answer
	}
	switch {
	case r.URL.Path != "/api/v1/pods":
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Query().Has("watch"):
		d.queries = append(d.queries, r.URL.Query().Get("resourceVersion"))
		_, _ = io.WriteString(w, next(&d.watches))
	default:
		_, _ = io.WriteString(w, next(&d.lists))
	}
}

func watchPod(name string, revision int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":"%d"}}`, name, name, revision)
}

func watchList(revision int, pods ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, revision, strings.Join(pods, ","))
}

const watchExpired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"message":"gone"}}`

// watchPods runs get pods until the daemon has no more answers.
func watchPods(t *testing.T, d *watchDaemon, flags ...string) string {
	t.Helper()
	server := httptest.NewServer(d)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.end = cancel
	var out bytes.Buffer
	if err := run(ctx, server.URL, &out, append([]string{"--no-headers"}, flags...)...); err != nil {
		t.Errorf("%v, %s", err, &out)
	}
	return out.String()
}

// After the daemon lost the revision, the pods that are gone are printed, and with --watch-only
// none that has not changed.
func TestWatchPodsOverALostRevision(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--watch":      "ADDED a 1,ADDED b 1,ADDED d 1,ADDED e 1,MODIFIED b 3,DELETED a 1,ADDED c 9,MODIFIED e 5,",
		"--watch-only": "MODIFIED b 3,DELETED a 1,ADDED c 9,MODIFIED e 5,",
	} {
		t.Run(flag, func(t *testing.T) {
			d := &watchDaemon{
				lists: []string{
					watchList(2, watchPod("a", 1), watchPod("b", 1), watchPod("d", 1), watchPod("e", 1)),
					watchList(9, watchPod("b", 3), watchPod("c", 9), watchPod("d", 1), watchPod("e", 5)),
				},
				watches: []string{`{"type":"MODIFIED","object":` + watchPod("b", 3) + `}` + watchExpired},
			}
			got := watchPods(t, d, flag, "--output-watch-events", "-o", "jsonpath={.type} {.object.metadata.name} {.object.metadata.resourceVersion},")
			if got != want {
				t.Errorf("%s: got %s, want %s", flag, got, want)
			}
		})
	}
}

// A daemon that no longer has a revision that it has just sent is not asked again without a wait.
func TestWatchPodsWaitsForARevision(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusGone)
			return
		}
		_, _ = io.WriteString(w, watchList(2))
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // short: the end of the watch
	defer cancel()
	if err := run(ctx, server.URL, io.Discard, "--watch", "-o", "name"); err != nil {
		t.Error(err)
	}
	if n := requests.Load(); n > 4 {
		t.Errorf("%d requests in half a second", n)
	}
}
