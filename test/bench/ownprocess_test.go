package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// serveVariable makes TestServe serve: it has the name of a server and the path of its socket.
const serveVariable = "PODCONFIGD_BENCH_SERVE"

// ownServers are the servers that can run in a process of their own. Each returns a function that makes the i-th change.
var ownServers = map[string]func(tb testing.TB, l net.Listener) (change func(i int)){
	"podconfigd-pods-api": changing(startOurPodsAPI),
	"kubelet-pods-api":    changing(startKubeletPodsAPI),
	"podconfigd-lines":    startLines,
	"plain-write": func(tb testing.TB, l net.Listener) func(int) {
		tb.Helper()
		return startPlainWrites(lineOf(tb, benchPod(0)), ownSubscribers(tb))(tb, l)
	},
}

// changing makes a server of the Pods API that changes one of its pods after the other.
func changing(start func(testing.TB, net.Listener, []*v1.Pod) func(*v1.Pod)) func(testing.TB, net.Listener) func(int) {
	return func(tb testing.TB, l net.Listener) func(int) {
		tb.Helper()
		var pods []*v1.Pod
		for i := range changers {
			pods = append(pods, benchPod(i))
		}
		change := start(tb, l, pods)
		return func(i int) { change(changed(pods, i)) }
	}
}

// ownSubscribers returns how many subscribers the server in this process will have.
func ownSubscribers(tb testing.TB) (n int) {
	tb.Helper()
	if _, err := fmt.Sscan(os.Getenv("PODCONFIGD_BENCH_SUBSCRIBERS"), &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// TestServe is the process of BenchmarkDelivery's server. It makes a change for each line that it reads.
func TestServe(t *testing.T) {
	name, socket, ok := strings.Cut(os.Getenv(serveVariable), " ")
	if !ok {
		t.Skip("BenchmarkDelivery runs it")
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	change := ownServers[name](t, l)
	fmt.Println("serving")
	lines := bufio.NewScanner(os.Stdin)
	for i := 0; lines.Scan(); i++ {
		change(i)
	}
}

// BenchmarkDelivery measures the processor time of a server that has a process of its own, for each delivery to a
// subscriber. The subscribers are in this process.
func BenchmarkDelivery(b *testing.B) {
	for _, subscribers := range []int{100, 1000} {
		for _, name := range []string{"podconfigd-pods-api", "kubelet-pods-api", "podconfigd-lines", "plain-write"} {
			b.Run(fmt.Sprintf("subscribers=%d/peer=%s", subscribers, name), func(b *testing.B) {
				var server *process
				start := func(tb testing.TB, l net.Listener) func(int) {
					tb.Helper()
					var change func(int)
					server, change = startServer(tb, name, l, subscribers)
					return change
				}
				var update func(n int)
				var settle func()
				if strings.HasSuffix(name, "pods-api") {
					w := newPodsWatch(b, func(tb testing.TB, l net.Listener, _ []*v1.Pod) func(*v1.Pod) {
						tb.Helper()
						change := start(tb, l)
						return func(*v1.Pod) { change(0) }
					}, subscribers, false)
					update, settle = func(n int) { w.update(b, n) }, func() { w.settle(b, 0) }
				} else {
					r := newLineSubscribers(b, start, "", subscribers)
					update, settle = func(n int) { r.update(b, n) }, func() { r.settle(b, 0) }
				}
				update(10 * paced)
				settle()
				before, begin, n := server.cpu(b), time.Now(), 0
				for b.Loop() {
					update(1)
					n++
				}
				settle()
				deliveries := float64(n * subscribers)
				b.ReportMetric((server.cpu(b)-before).Seconds()*1e6/deliveries, "server-cpu-µs/delivery")
				b.ReportMetric(deliveries/time.Since(begin).Seconds(), "deliveries/s")
			})
		}
	}
}

// startServer starts a server in a process of its own, at the path of the listener.
func startServer(tb testing.TB, name string, l net.Listener, subscribers int) (*process, func(int)) {
	tb.Helper()
	socket := l.Addr().String()
	_ = l.Close() // it removes the file
	var in io.WriteCloser
	var out io.Reader
	p := start(tb, os.Executable, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), serveVariable+"="+name+" "+socket, fmt.Sprint("PODCONFIGD_BENCH_SUBSCRIBERS=", subscribers))
		var err error
		if in, err = cmd.StdinPipe(); err != nil {
			tb.Fatal(err)
		}
		if out, err = cmd.StdoutPipe(); err != nil {
			tb.Fatal(err)
		}
		cmd.Cancel = func() error { return in.Close() }
	}, "-test.run=^TestServe$", "-test.timeout=0", "-test.cpuprofile="+os.Getenv("BENCH_SERVER_PROFILE"))
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "serving" {
			break
		}
	}
	return p, func(int) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			tb.Fatal(err)
		}
	}
}
