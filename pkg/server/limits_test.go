package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// otherProcess is the environment variable that makes this test binary another process.
// It gets the URL path in the variable from the socket on its command line, prints each
// line, and ends with its standard input.
const otherProcess = "PODCONFIGD_TEST_GET"

func init() {
	path := os.Getenv(otherProcess)
	if path == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	resp, err := (&http.Client{Transport: unixTransport(os.Args[1])}).Get("http://localhost" + path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.Copy(os.Stdout, resp.Body)
	_ = resp.Body.Close()
	os.Exit(0)
}

// elsewhere gets a path in another process, until the test ends.
func (d *daemon) elsewhere(t *testing.T, path string) *bufio.Reader {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], d.socket)
	cmd.Env = append(os.Environ(), otherProcess+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // its connection may have been cut
	})
	return bufio.NewReader(stdout)
}

func refused(t *testing.T, code int, body, want string) {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if code != http.StatusTooManyRequests || s.Reason != metav1.StatusReasonTooManyRequests || !strings.Contains(s.Message, want) {
		t.Errorf("%d %+v, want %s", code, s, want)
	}
}

// A process with the maximum number of streams gets no more, in each protocol. Another
// process does, until the total is reached.
func TestLimitsOfSubscribers(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 3, SubscribersPerPeer: 2})
	d.add("a", 1)
	mine := []*subscriber{d.read(t, ""), d.read(t, "")}
	for _, r := range mine {
		r.expect(t, v1alpha1.OpAdd, "a")
		r.expect(t, v1alpha1.OpBookmark)
	}
	tooMany := fmt.Sprintf("too many subscribers: process %d has 2", os.Getpid())
	code, body := d.get(t, "/v1alpha1/updates")
	refused(t, code, body, tooMany)
	conn := d.grpc(t, d.socket)
	stream, err := podconfigd.NewPodConfigClient(conn).Watch(t.Context(), &podconfigd.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), tooMany) {
		t.Errorf("Watch: %v", err)
	}
	if _, err := watchPods(t, conn).stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("WatchPods: %v", err)
	}
	health, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("Health.Watch: %v", err)
	}

	other := d.elsewhere(t, "/v1alpha1/updates")
	if line, err := other.ReadString('\n'); err != nil || !strings.Contains(line, `"op":"ADD"`) {
		t.Errorf("another process got %q, %v", line, err)
	}
	answer, err := d.elsewhere(t, "/v1alpha1/updates").ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	refused(t, http.StatusTooManyRequests, answer, "too many subscribers: there are 3")

	// Present subscribers are not affected, and a place that becomes free can be used.
	d.add("b", 1)
	for _, r := range mine {
		r.expect(t, v1alpha1.OpAdd, "b")
	}
	_ = mine[0].body.Close()
	testutil.Until(t, "a place is free", func() bool {
		return d.limits.Sockets.Subscribers.InUse() == 2
	})
	d.read(t, "").expect(t, v1alpha1.OpAdd, "a", "b")
}

func TestLimitsOfLists(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ListsPerPeer: 1})
	for i := range 32 {
		d.add(fmt.Sprint(i), 64<<10)
	}
	// A list of 2 MiB counts until it is read.
	stuck := d.dial(t)
	fmt.Fprint(stuck, "GET /pods HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := stuck.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	tooMany := fmt.Sprintf("too many lists at a time: process %d has 1", os.Getpid())
	code, body := d.get(t, "/pods")
	refused(t, code, body, tooMany)
	conn := d.grpc(t, d.socket)
	if _, err := podsv1alpha1.NewPodsClient(conn).ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{}); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), tooMany) {
		t.Errorf("ListPods: %v", err)
	}
	if _, err := podconfigd.NewPodConfigClient(conn).List(t.Context(), &podconfigd.ListRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("List: %v", err)
	}
	if data, err := io.ReadAll(d.elsewhere(t, "/pods")); err != nil || len(data) < 2<<20 {
		t.Errorf("another process was given %d bytes, %v", len(data), err)
	}
	_ = stuck.Close()
	for code == http.StatusTooManyRequests {
		code, _ = d.get(t, "/pods")
	}
	if code != http.StatusOK {
		t.Errorf("after the list was given up: %d", code)
	}
}

func TestLimitsOfConnections(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ConnectionsPerPeer: 3})
	d.add("a", 1)
	held := d.read(t, "")
	held.expect(t, v1alpha1.OpAdd, "a")
	held.expect(t, v1alpha1.OpBookmark)
	// An idle connection counts too.
	idle := d.dial(t)
	third := d.dial(t)
	fmt.Fprint(third, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := third.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	tooMany := fmt.Sprintf("too many connections: process %d has 3", os.Getpid())
	conn := d.dial(t)
	fmt.Fprint(conn, "GET /pods HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	refused(t, resp.StatusCode, string(body), tooMany)
	_, err = podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Status(t.Context(), &podconfigd.StatusRequest{})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), tooMany) {
		t.Errorf("gRPC: %v", err)
	}
	if data, err := io.ReadAll(d.elsewhere(t, "/pods")); err != nil || !strings.Contains(string(data), `"name":"a"`) {
		t.Errorf("another process was given %s, %v", data, err)
	}
	d.add("b", 1)
	held.expect(t, v1alpha1.OpAdd, "b")
	_ = idle.Close()
	for {
		again := d.dial(t)
		fmt.Fprint(again, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(again), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		_ = again.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

func TestLimitOfTheQuery(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	if code, body := d.get(t, "/v1alpha1/updates?labelSelector="+strings.Repeat("a", maxQuery)); code != http.StatusRequestURITooLong || !strings.Contains(body, "the query is 16398 bytes long") {
		t.Errorf("%d %s", code, body)
	}
	huge := &podconfigd.WatchRequest{Selector: &podconfigd.PodSelector{LabelSelector: strings.Repeat("a", conn.MaxHeader)}}
	stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Watch(t.Context(), huge)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("gRPC: %v", err)
	}
}
