package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// serveAlsoLocal serves the same server on a loopback address.
func (d *daemon) serveAlsoLocal(t *testing.T) (address string) {
	t.Helper()
	l, err := socket.Address{Scheme: socket.SchemeHTTP, Host: "127.0.0.1"}.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error)
	go func() { done <- d.server.RunReadOnly(ctx, l) }()
	t.Cleanup(func() {
		cancel(errStopped)
		if err := <-done; !errors.Is(err, errStopped) {
			t.Errorf("RunReadOnly returned %v", err)
		}
	})
	return l.Addr().String()
}

func dialFrom(t *testing.T, from, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// askOn sends a request on a connection, and returns the answer. If it is a stream, it is open.
func askOn(t *testing.T, conn net.Conn, path string) (code int, body string) {
	t.Helper()
	request(t, conn, path, "")
	buffer := make([]byte, 4096)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	answer := string(buffer[:n])
	if _, err := fmt.Sscanf(answer, "HTTP/1.1 %d", &code); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	_, body, _ = strings.Cut(answer, "\r\n\r\n")
	return code, body
}

// All loopback addresses are one peer, and it takes no place from the clients of the sockets.
func TestLoopbackIsOnePeer(t *testing.T) {
	const streams, connections = 2, 5
	d := serveWithLimits(t, journal.Options{}, conn.Limits{
		Subscribers: streams, SubscribersPerPeer: streams, Lists: 1, Connections: 4 * connections, ConnectionsPerPeer: connections,
	})
	d.add("a", 8<<20)
	address := d.serveAlsoLocal(t)
	for i := range streams {
		if code, body := askOn(t, dialFrom(t, fmt.Sprintf("127.0.0.%d", i+1), address), "/v1alpha1/updates"); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	code, body := askOn(t, dialFrom(t, "127.1.2.3", address), "/v1alpha1/updates")
	refused(t, code, body, "too many subscribers: loopback has 2")
	if code, _ := askOn(t, dialFrom(t, "127.0.0.4", address), "/pods"); code != http.StatusOK { // nobody reads it
		t.Fatal(code)
	}
	code, body = askOn(t, dialFrom(t, "127.0.0.5", address), "/pods")
	refused(t, code, body, "too many lists at a time")
	// All of these connections are open, also those whose requests were refused.
	code, body = askOn(t, dialFrom(t, "127.0.0.6", address), "/pods")
	refused(t, code, body, "too many connections: loopback has 5")

	for range 2 {
		if code, body := askOn(t, d.dial(t), "/v1alpha1/updates"); code != http.StatusOK {
			t.Errorf("a stream of the socket: %d %s", code, body)
		}
	}
	if code, body := d.get(t, "/pods"); code != http.StatusOK {
		t.Errorf("a list of the socket: %d %s", code, body)
	}
}

// dialAs connects to a socket as a user. The kernel takes the user of the thread.
func dialAs(t *testing.T, socket string, uid int) net.Conn {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	type dialed struct {
		conn net.Conn
		err  error
	}
	result := make(chan dialed)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		const same = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
			result <- dialed{err: errno}
			return
		}
		conn, err := net.Dial("unix", socket)
		result <- dialed{conn, err}
	}()
	d := <-result
	if d.err != nil {
		t.Fatal(d.err)
	}
	t.Cleanup(func() { _ = d.conn.Close() })
	return d.conn
}

// open lets all users connect to the sockets.
func (d *daemon) open(t *testing.T) {
	t.Helper()
	for path, mode := range map[string]os.FileMode{filepath.Dir(d.socket): 0o755, d.socket: 0o666, d.pods: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// A user has no more than half of what the other users leave of the streams of the sockets. All users leave a part to root and the
// user of the daemon, and these leave one to the users.
func TestPartsOfUsers(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 8, SubscribersPerPeer: 8, Connections: 100})
	d.open(t)
	stream := func(uid int) (code int, body string) { return askOn(t, dialAs(t, d.socket, uid), "/v1alpha1/updates") }
	opened := func(uid, n int) {
		t.Helper()
		for range n {
			if code, body := stream(uid); code != http.StatusOK {
				t.Fatalf("user %d: %d %s", uid, code, body)
			}
		}
	}
	opened(64001, 3)
	code, body := stream(64001)
	refused(t, code, body, "too many subscribers: user 64001 has 3, and a user gets at most half of what other users leave")
	opened(64002, 2)
	code, body = stream(64002)
	refused(t, code, body, "too many subscribers: user 64002 has 2")
	opened(64003, 1)
	code, body = stream(64004)
	refused(t, code, body, "too many subscribers: the users have 6, and the rest is for root and the user of podconfigd")
	opened(0, 2)
	code, body = stream(0)
	refused(t, code, body, "too many subscribers: there are 8")
}

// Root leaves a part to other users.
func TestThePartOfRoot(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Subscribers: 8, SubscribersPerPeer: 8, Connections: 100})
	d.open(t)
	for range 7 {
		if code, body := askOn(t, dialAs(t, d.socket, 0), "/v1alpha1/updates"); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	code, body := askOn(t, dialAs(t, d.socket, 0), "/v1alpha1/updates")
	refused(t, code, body, "too many subscribers: root and the user of podconfigd have 7, and the rest is for other users")
	if code, body := askOn(t, dialAs(t, d.socket, 64001), "/v1alpha1/updates"); code != http.StatusOK {
		t.Errorf("a user: %d %s", code, body)
	}
}

// The parts of connections, lists, lookups and calls are those of streams. A user that has all of its
// connections does not keep root from connecting.
func TestPartsOfConnections(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Connections: 16, ConnectionsPerPeer: 16})
	d.open(t)
	// Connections without a request would be closed.
	opened := func(uid, n int) {
		t.Helper()
		for range n {
			if code, body := askOn(t, dialAs(t, d.socket, uid), "/v1alpha1/updates"); code != http.StatusOK {
				t.Fatalf("user %d: %d %s", uid, code, body)
			}
		}
	}
	opened(64001, 6)
	code, body := askOn(t, dialAs(t, d.socket, 64001), "/pods")
	refused(t, code, body, "too many connections: user 64001 has 6")
	opened(64002, 3)
	opened(64003, 2)
	opened(64004, 1)
	code, body = askOn(t, dialAs(t, d.socket, 64005), "/pods")
	refused(t, code, body, "too many connections: the users have 12")
	if code, body := askOn(t, dialAs(t, d.socket, 0), "/pods"); code != http.StatusOK {
		t.Errorf("root: %d %s", code, body)
	}
}

// A client that sees nothing is refused by the rules, and takes no place.
func TestAClientThatSeesNothingTakesNoPlace(t *testing.T) {
	d := serveWithLimits(t, journal.Options{}, conn.Limits{Lists: 1, Subscribers: 1}, func(o *Options) { o.Policy = access.NewPolicy([]access.Rule{notMe(access.Full)}) })
	for _, take := range []func(context.Context) (func(), error){d.limits.List, d.limits.Subscriber, d.limits.Wait} {
		if _, refusal := take(t.Context()); refusal != nil { // it is the last place
			t.Fatal(refusal)
		}
	}
	for _, path := range append([]string{"/v1alpha1/runtime", "/v1alpha1/history", "/pods/", "/v1alpha1/lookup?podUID=a&wait=1s&pods=true"}, pathsOfCanary...) {
		if code, body := d.get(t, path); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	conn := d.grpc(t, d.socket)
	pods, api := podsv1alpha1.NewPodsClient(conn), podconfigd.NewPodConfigClient(conn)
	for name, call := range map[string]func(context.Context) error{
		"ListPods": func(ctx context.Context) error { _, err := pods.ListPods(ctx, nil); return err },
		"List":     func(ctx context.Context) error { _, err := api.List(ctx, nil); return err },
		"Lookup": func(ctx context.Context) error {
			_, err := api.Lookup(ctx, &podconfigd.LookupRequest{Target: &podconfigd.LookupRequest_PodUid{PodUid: "a"}, Pods: true})
			return err
		},
		"WatchPods": func(ctx context.Context) error {
			stream, err := pods.WatchPods(ctx, nil)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"Watch": func(ctx context.Context) error {
			stream, err := api.Watch(ctx, nil)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"ListContainers": func(ctx context.Context) error { _, err := api.ListContainers(ctx, nil); return err },
		"WatchContainers": func(ctx context.Context) error {
			stream, err := api.WatchContainers(ctx, nil)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"LookupStream": func(ctx context.Context) error {
			stream, err := api.LookupStream(ctx)
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := call(t.Context()); status.Code(err) != codes.PermissionDenied || errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	// Health is for everybody. Its streams take places.
	health, err := healthpb.NewHealthClient(conn).Watch(t.Context(), nil)
	if err == nil {
		_, err = health.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("Watch of grpc.health.v1: %v", err)
	}
}
