package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// history has the updates of a daemon during which clients are disconnected.
type history struct {
	opts journal.Options
	// before appends the updates from before the clients connect, then those after.
	before, then func(j *journal.Journal)
	// place returns where the clients resume, if they do, with these pods.
	place func(j *journal.Journal) naive
	// step is the distance of cuts within lines.
	step int
}

// appendUpdates appends updates of pods "name=version". If there are several, they are one set.
func appendUpdates(j *journal.Journal, size int, updates ...string) {
	for i, update := range updates {
		words := strings.Fields(update)
		op := map[string]config.PodOperation{
			"ADD": config.ADD, "UPDATE": config.UPDATE, "REMOVE": config.REMOVE, "RECONCILE": config.RECONCILE,
		}[words[0]]
		u := config.PodUpdate{Op: op, Source: "file", More: i < len(updates)-1}
		for _, word := range words[1:] {
			name, version, _ := strings.Cut(word, "=")
			u.Pods = append(u.Pods, podtest.Pod(name, podtest.Annotation("version", version), podtest.Annotation("x", strings.Repeat("x", size))))
		}
		j.Append(u)
	}
}

func changesOf(size int) func(j *journal.Journal) {
	return func(j *journal.Journal) {
		appendUpdates(j, size, "UPDATE a=2 b=2")
		appendUpdates(j, size, "REMOVE b", "ADD d=1 e=1", "UPDATE a=3 c=2")
		appendUpdates(j, size, "RECONCILE c=3")
		appendUpdates(j, size, "REMOVE d c")
		appendUpdates(j, size, "ADD last=1")
	}
}

var histories = map[string]history{
	"from the present state": {
		before: func(j *journal.Journal) { appendUpdates(j, 0, "ADD a=1 b=1 c=1") },
		then:   changesOf(0), step: 37,
	},
	"large updates": {
		before: func(j *journal.Journal) { appendUpdates(j, 9<<10, "ADD a=1 b=1 c=1") },
		then:   changesOf(9 << 10), step: 4999,
	},
	"its place is compacted": {
		opts:   journal.Options{MaxUpdates: 2},
		before: func(j *journal.Journal) { appendUpdates(j, 0, "ADD a=1 b=1 c=1"); changesOf(0)(j) },
		then:   func(*journal.Journal) {}, step: 37,
		place: func(j *journal.Journal) naive {
			return naive{map[string]string{"a": "1", "old": "1"}, j.Status().Instance, j.Status().Compacted - 1}
		},
	},
	"its place is of another instance": {
		before: func(j *journal.Journal) { appendUpdates(j, 9<<10, "ADD a=1 b=1 c=1"); changesOf(9 << 10)(j) },
		then:   func(*journal.Journal) {}, step: 4999,
		place: func(*journal.Journal) naive {
			return naive{map[string]string{"a": "1", "old": "1"}, "another", 1}
		},
	},
}

// outcome is the state of a client with the last revision: a=3 e=1 last=1.
var outcome = map[string]string{"a": "3", "e": "1", "last": "1"}

// subscriber reads the stream of a daemon from a place. It sends on synced when it has
// the current state, or is disconnected. It returns when it has the outcome.
type subscriber func(ctx context.Context, t *testing.T, socket string, from naive, last func() int64, synced func()) naive

// A client that saves the revision of each line with one, and nothing else, loses no pod
// and keeps no removed pod, wherever its connection is cut.
func TestCutAnywhere(t *testing.T) {
	for reads, read := range map[string]subscriber{"naive": readNaively, "pkg/client": readWithClient, "restarts": readWithRestarts} {
		for name, h := range histories {
			t.Run(reads+"/"+name, func(t *testing.T) {
				t.Parallel()
				cuts := h.cuts(t)
				if reads == "restarts" { // it connects for each update
					n := 0
					cuts = slices.DeleteFunc(cuts, func(int) bool { n++; return n%3 != 0 })
				}
				h.cut(t, read, cuts)
			})
		}
	}
}

// cut runs a daemon and a client for each cut, and compares the clients with the outcome.
func (h *history) cut(t *testing.T, read subscriber, cuts []int) {
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
	appendUpdates(j, 0, "UPDATE last=1") // the end for all
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

// cuts returns the positions for cuts in a reply: all near the ends of lines, and some between. The size
// of a chunk is a line too.
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
			if (at+i)%h.step == 0 || i == 0 || i == len(line)-1 {
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

// cutAfter is a proxy between clients and a daemon. It cuts the first connection after n
// bytes of the reply.
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
