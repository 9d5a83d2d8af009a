package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// naive is a client that was written from what the README says of resuming, and from
// nothing else.
type naive struct {
	Pods     map[string]string // versions by name
	Instance string
	Revision int64
}

func (n *naive) query() string {
	if n.Revision == 0 {
		n.Pods = make(map[string]string)
		return ""
	}
	return fmt.Sprintf("?instance=%s&since=%d", n.Instance, n.Revision)
}

func (n *naive) read(body io.Reader, acted func()) {
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var u struct {
			Instance string
			Op       v1alpha1.Op
			Revision int64
			Reset    bool
			Pods     []v1.Pod
		}
		if err := json.Unmarshal(line, &u); err != nil {
			panic(err)
		}
		if u.Reset {
			clear(n.Pods)
		}
		for i := range u.Pods {
			if u.Op == v1alpha1.OpRemove {
				delete(n.Pods, u.Pods[i].Name)
			} else {
				n.Pods[u.Pods[i].Name] = u.Pods[i].Annotations["version"]
			}
		}
		if u.Revision != 0 {
			n.Instance, n.Revision = u.Instance, u.Revision
		}
		acted()
	}
}

// history is what happens to a daemon while clients read it, whose connections are cut.
type history struct {
	opts journal.Options
	// before is there when the clients come, then comes what follows.
	before, then func(j *journal.Journal)
	// place is where the clients resume, if they do, with these pods.
	place func(j *journal.Journal) naive
	// step is how far apart the cuts are in the midst of lines.
	step int
	// every is how many of these cuts make one that is tried; 0 stands for 1.
	every int
}

// tell appends an update of pods "name=version", as one set where several ops follow on
// one another.
func tell(j *journal.Journal, size int, updates ...string) {
	for i, update := range updates {
		words := strings.Fields(update)
		op := map[string]config.PodOperation{
			"ADD": config.ADD, "UPDATE": config.UPDATE, "REMOVE": config.REMOVE, "RECONCILE": config.RECONCILE,
		}[words[0]]
		u := config.PodUpdate{Op: op, Source: "file", More: i < len(updates)-1}
		for _, word := range words[1:] {
			name, version, _ := strings.Cut(word, "=")
			p := &v1.Pod{}
			p.Name, p.UID = name, types.UID(name)
			p.Annotations = map[string]string{"version": version, "x": strings.Repeat("x", size)}
			u.Pods = append(u.Pods, p)
		}
		j.Append(u)
	}
}

func changesOf(size int) func(j *journal.Journal) {
	return func(j *journal.Journal) {
		tell(j, size, "UPDATE a=2 b=2")
		tell(j, size, "REMOVE b", "ADD d=1 e=1", "UPDATE a=3 c=2")
		tell(j, size, "RECONCILE c=3")
		tell(j, size, "REMOVE d c")
		tell(j, size, "ADD last=1")
	}
}

var histories = map[string]history{
	"from the present state": {
		before: func(j *journal.Journal) { tell(j, 0, "ADD a=1 b=1 c=1") },
		then:   changesOf(0), step: 1,
	},
	"large updates": {
		before: func(j *journal.Journal) { tell(j, 9<<10, "ADD a=1 b=1 c=1") },
		then:   changesOf(9 << 10), step: 997,
	},
	"its place is compacted": {
		opts:   journal.Options{MaxUpdates: 2},
		before: func(j *journal.Journal) { tell(j, 0, "ADD a=1 b=1 c=1"); changesOf(0)(j) },
		then:   func(*journal.Journal) {}, step: 1,
		place: func(j *journal.Journal) naive {
			return naive{map[string]string{"a": "1", "old": "1"}, j.Status().Instance, j.Status().Compacted - 1}
		},
	},
	"its place is of another instance": {
		before: func(j *journal.Journal) { tell(j, 9<<10, "ADD a=1 b=1 c=1"); changesOf(9 << 10)(j) },
		then:   func(*journal.Journal) {}, step: 997,
		place: func(*journal.Journal) naive {
			return naive{map[string]string{"a": "1", "old": "1"}, "another", 1}
		},
	},
}

// outcome is what a client has when it has saved the last revision: a=3 e=1 last=1.
var outcome = map[string]string{"a": "3", "e": "1", "last": "1"}

// reader follows a daemon at a socket from a place, and sends on synced when it has had
// the present state, or was cut off. It returns when it has the outcome.
type reader func(ctx context.Context, t *testing.T, socket string, from naive, last func() int64, synced func()) naive

// A client that saves the revision of each line that has one, and nothing else, loses no
// pod and keeps none too many, wherever its connection is cut.
func TestCutAnywhere(t *testing.T) {
	for reads, read := range map[string]reader{"naive": readNaively, "pkg/client": readWithClient, "restarts": readWithRestarts} {
		for name, h := range histories {
			t.Run(reads+"/"+name, func(t *testing.T) {
				t.Parallel()
				if reads == "restarts" {
					h.every = 7 // it connects for each update
				}
				h.cutAnywhere(t, read)
			})
		}
	}
}

func (h *history) cutAnywhere(t *testing.T, read reader) {
	t.Helper()
	const together = 200
	var cuts []int
	for i, at := range h.cuts(t) {
		if i%max(1, h.every) == 0 {
			cuts = append(cuts, at)
		}
	}
	if testing.Short() && len(cuts) > together {
		cuts = cuts[:together]
	}
	for len(cuts) > 0 && !t.Failed() {
		n := min(together, len(cuts))
		h.cut(t, read, cuts[:n])
		cuts = cuts[n:]
	}
}

// cut runs a daemon and a client for each cut, and holds the clients to the outcome.
func (h *history) cut(t *testing.T, read reader, cuts []int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := testutil.ShortDir(t)
	j := h.journal()
	stop := serve(t, j, filepath.Join(dir, "s"))
	defer stop()
	var clients, synced sync.WaitGroup
	var mu sync.Mutex
	var last int64
	newest := func() int64 { mu.Lock(); defer mu.Unlock(); return last }
	for _, n := range cuts {
		synced.Add(1)
		clients.Go(func() {
			once := sync.OnceFunc(synced.Done)
			defer once()
			socket := filepath.Join(dir, fmt.Sprint(n))
			defer cutAfter(t, n, socket, filepath.Join(dir, "s"))()
			got := read(ctx, t, socket, h.begin(j), newest, once)
			if !maps.Equal(got.Pods, outcome) {
				t.Errorf("cut after %d bytes: the client has %v, want %v", n, got.Pods, outcome)
			}
		})
	}
	synced.Wait()
	mu.Lock()
	h.then(j)
	last = j.Status().Revision
	mu.Unlock()
	tell(j, 0, "UPDATE last=1") // so that all see the end
	clients.Wait()
}

func (h *history) journal() *journal.Journal {
	opts := h.opts
	opts.Sources = []string{"file"}
	j := journal.New(opts)
	h.before(j)
	return j
}

func (h *history) begin(j *journal.Journal) naive {
	if h.place == nil {
		return naive{}
	}
	from := h.place(j)
	from.Pods = maps.Clone(from.Pods)
	return from
}

// cuts are the places to cut a reply at: all near the ends of lines, and every so many
// bytes between.
func (h *history) cuts(t *testing.T) (cuts []int) {
	t.Helper()
	j := h.journal()
	socket := filepath.Join(testutil.ShortDir(t), "s")
	stop := serve(t, j, socket)
	defer stop()
	from := h.begin(j)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1alpha1/updates%s HTTP/1.1\r\nHost: localhost\r\n\r\n", from.query())
	replies, at := bufio.NewReader(conn), 0
	for newest := int64(0); ; {
		line, err := replies.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(line) {
			if (at+i)%h.step == 0 || i < 20 || i >= len(line)-20 {
				cuts = append(cuts, at+i)
			}
		}
		at += len(line)
		if strings.Contains(line, `"initialSyncComplete":true`) {
			h.then(j)
			newest = j.Status().Revision
		}
		if newest > 0 && strings.Contains(line, fmt.Sprintf(`"revision":%d,`, newest)) {
			return cuts
		}
	}
}

// cutAfter stands between clients and a daemon, and cuts the first connection off after
// so many bytes of the reply.
func cutAfter(t *testing.T, n int, from, to string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", from)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for first := true; ; first = false {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				upstream, err := net.Dial("unix", to)
				if err != nil {
					_ = conn.Close()
					return
				}
				running.Go(func() { _, _ = io.Copy(upstream, conn); _ = upstream.Close() })
				if first {
					_, _ = io.CopyN(conn, upstream, int64(n))
				} else {
					_, _ = io.Copy(conn, upstream)
				}
				_ = conn.Close()
			})
		}
	})
	return func() { _ = l.Close(); running.Wait() }
}

func readNaively(ctx context.Context, t *testing.T, socket string, n naive, last func() int64, synced func()) naive {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(ctx)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1alpha1/updates"+n.query(), nil)
		if err != nil {
			t.Error(err)
		}
		done := false
		if resp, err := transport.RoundTrip(req); err == nil {
			n.read(resp.Body, func() {
				if n.Revision != 0 {
					synced()
				}
				if newest := last(); newest != 0 && n.Revision >= newest {
					done = true
					cancel()
				}
			})
			_ = resp.Body.Close()
		}
		cancel()
		synced() // it was cut off
		if done || t.Failed() {
			return n
		}
	}
}

// apply takes an update over as pkg/client hands it on.
func (n *naive) apply(u *v1alpha1.Update) {
	if u.Reset {
		clear(n.Pods)
	}
	for _, pod := range u.Pods {
		if u.Op == v1alpha1.OpRemove {
			delete(n.Pods, pod.Name)
		} else {
			n.Pods[pod.Name] = pod.Annotations["version"]
		}
	}
	if u.Revision != 0 {
		n.Instance, n.Revision = u.Instance, u.Revision
	}
}

// readWithClient has pkg/client resume.
func readWithClient(ctx context.Context, t *testing.T, socket string, n naive, last func() int64, synced func()) naive {
	t.Helper()
	_ = n.query() // without a place it begins with no pods
	opts := client.Options{Instance: n.Instance, Since: n.Revision, OnDisconnect: func(error, time.Duration) { synced() }}
	for u, err := range client.New(socket).Updates(ctx, opts) {
		if err != nil {
			t.Error(err)
			return n
		}
		n.apply(u)
		if n.Revision != 0 {
			synced()
		}
		if newest := last(); newest != 0 && n.Revision >= newest {
			break
		}
	}
	return n
}

// readWithRestarts has a program end after each update, and resume from what it has saved.
func readWithRestarts(ctx context.Context, t *testing.T, socket string, n naive, last func() int64, synced func()) naive {
	t.Helper()
	for ctx.Err() == nil {
		_ = n.query()
		opts := client.Options{Instance: n.Instance, Since: n.Revision, Once: true}
		for u, err := range client.New(socket).Updates(ctx, opts) {
			if err != nil {
				synced() // it was cut off
				break
			}
			n.apply(u)
			if n.Revision == 0 || u.Revision == 0 {
				continue // to end here again and again would lead nowhere
			}
			synced()
			if newest := last(); newest != 0 && n.Revision >= newest {
				return n
			}
			break
		}
	}
	return n
}
