package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a journal on the socket until stop is called.
func serve(t *testing.T, j *journal.Journal, path string) (stop func()) {
	t.Helper()
	l, err := socket.Listen(t.Context(), socket.ListenOptions{Path: path, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	// All clients are in this process. On a busy machine, disconnected clients count for
	// some time.
	many := conn.Limits{Subscribers: 1 << 14, SubscribersPerPeer: 1 << 14}
	s := server.New(server.Options{Journal: j, Status: j.Status, Gatherer: prometheus.NewRegistry(), Limits: many})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, l) }()
	return sync.OnceFunc(func() { cancel(); <-done })
}

// add appends an update.
func add(j *journal.Journal, op config.PodOperation, names ...string) { addSized(j, 0, op, names...) }

// addSized appends an update of pods with the size.
func addSized(j *journal.Journal, size int, op config.PodOperation, names ...string) {
	u := config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{}}
	for _, name := range names {
		u.Pods = append(u.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), Annotations: map[string]string{"size": strings.Repeat("x", size)},
		}})
	}
	j.Append(u)
}

// show returns an update in short.
func show(u *v1alpha1.Update) string {
	line := string(u.Op)
	for _, p := range u.Pods {
		line += " " + p.Name
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"reset", u.Reset}, {"synced", u.InitialSyncComplete}, {"continues", u.Continues}} {
		if flag.set {
			line += " " + flag.name
		}
	}
	return line
}

// After a restart, the daemon is another instance, and the subscriber gets a reset.
func TestARestartIsAReset(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	first := journal.New(journal.Options{Sources: []string{"file"}})
	add(first, config.ADD, "old")
	stop := serve(t, first, socket)
	second := journal.New(journal.Options{Sources: []string{"file"}})
	add(second, config.ADD, "last")
	var got []string
	var disconnects int
	opts := client.Options{OnDisconnect: func(err error, retryIn time.Duration) {
		if err == nil || retryIn <= 0 {
			t.Errorf("got %v, retry in %v", err, retryIn)
		}
		if disconnects++; disconnects == 3 {
			stop = serve(t, second, socket)
		}
	}}
	for u, err := range client.New(socket).Updates(t.Context(), opts) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, show(u))
		if len(got) == 2 {
			stop()
		}
		if len(got) == 5 {
			break
		}
	}
	stop()
	want := "ADD old|BOOKMARK synced|BOOKMARK reset|ADD last|BOOKMARK synced"
	if strings.Join(got, "|") != want {
		t.Errorf("got %v", got)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dir := testutil.ShortDir(t)
	file := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for socket, want := range map[string]string{
		filepath.Join(dir, "nothing"): "is podconfigd running, and is this its socket?",
		file:                          "the socket is from an earlier run",
		"":                            "set --socket or PODCONFIGD_SOCKET",
	} {
		t.Run(want, func(t *testing.T) {
			_, err := client.New(socket).Pods(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", socket, err)
			}
		})
	}
}

func TestARefusalEndsTheSequence(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	stop := serve(t, journal.New(journal.Options{}), socket)
	defer stop()
	n := 0
	for _, err := range client.New(socket).Updates(t.Context(), client.Options{Mode: "all"}) {
		if n++; n > 1 {
			t.Fatal("it went on")
		}
		if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Code != 400 || !strings.Contains(err.Error(), `"mode"`) {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d results, want the error", n)
	}
}

// If there are too many subscribers, a new one is refused, and one that reconnects waits.
func TestTooManyIsForAMoment(t *testing.T) {
	socket := filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := asked.Add(1); n == 1 || n == 3 || n == 4 {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","message":"too many subscribers"}`)
			return
		}
		_, _ = io.WriteString(w, `{"instance":"i","revision":1,"op":"BOOKMARK","initialSyncComplete":true}`+"\n")
	})}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	defer func() { _ = s.Close(); <-served }()
	c := client.New(socket)
	for u, err := range c.Updates(t.Context(), client.Options{}) {
		if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Code != http.StatusTooManyRequests {
			t.Fatalf("at first: %v, %v", u, err)
		}
	}
	var causes []string
	opts := client.Options{OnDisconnect: func(err error, _ time.Duration) { causes = append(causes, err.Error()) }}
	n := 0
	for _, err := range c.Updates(t.Context(), opts) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if got := strings.Join(causes, ", "); got != "the daemon ended the stream, too many subscribers, too many subscribers" {
		t.Errorf("got %s", got)
	}
}

func TestDefaultSocket(t *testing.T) {
	t.Setenv(client.SocketEnv, "/x/y")
	if got := client.DefaultSocket(); got != "/x/y" {
		t.Errorf("got %s", got)
	}
	t.Setenv(client.SocketEnv, "")
	t.Setenv("XDG_RUNTIME_DIR", "/xdg")
	want := "/xdg/podconfigd/podconfigd.sock"
	if os.Geteuid() == 0 {
		want = "/run/podconfigd/podconfigd.sock"
	}
	if got := client.DefaultSocket(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A daemon that ends each stream within the first state is asked less and less often. Once a stream gets on, the
// next wait is short again.
func TestStreamsThatDoNotGetOn(t *testing.T) {
	const pods = `{"op":"ADD","source":"file","instance":"i","pods":[]}` + "\n"
	const synced = `{"op":"BOOKMARK","instance":"i","revision":%d,"initialSyncComplete":true,"ready":true}` + "\n"
	var streams atomic.Int64
	socket := filepath.Join(testutil.ShortDir(t), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := streams.Add(1)
		_, _ = io.WriteString(w, pods)
		if n == 6 {
			_, _ = fmt.Fprintf(w, synced, n)
		}
	}), ReadHeaderTimeout: testutil.Patience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		<-served
	}()
	var waits []time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	opts := client.Options{OnDisconnect: func(_ error, wait time.Duration) {
		if waits = append(waits, wait); len(waits) == 6 {
			cancel()
		}
	}}
	for _, err := range client.New(socket).Updates(ctx, opts) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for n, wait := range waits[:5] {
		if least := 25 * time.Millisecond << n; wait < least || wait > 2*least {
			t.Errorf("after %d streams, it waits %v, want %v to %v", n+1, wait, least, 2*least)
		}
	}
	if waits[5] > 50*time.Millisecond {
		t.Errorf("after a stream that got on, it waits %v", waits[5])
	}
}
