package daemon

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/fakecri"
)

// limitsOfDeploy are all limits in deploy, by file, with the test that runs each at its worst legal input.
var limitsOfDeploy = map[string]string{
	"kubernetes/base/daemonset.yaml terminationGracePeriodSeconds: 10": "TestTimesOfDeploy",
	"kubernetes/base/daemonset.yaml timeoutSeconds: 5":                 "TestTimesOfDeploy", // of both probes
	"kubernetes/base/daemonset.yaml periodSeconds: 10":                 "TestTimesOfDeploy",
	"kubernetes/base/daemonset.yaml periodSeconds: 5":                  "TestTimesOfDeploy",
	"kubernetes/base/daemonset.yaml failureThreshold: 6":               "TestTimesOfDeploy",
	"kubernetes/base/daemonset.yaml memory: 64Mi":                      "", // a request
	"kubernetes/base/daemonset.yaml memory: 512Mi":                     "TestMemoryOfDeploy",
	"kubernetes/components/export/export.yaml memory: 32Mi":            "", // a request
	"systemd/podconfigctl-export.service RestartSec=5s":                "", // a wait
	"systemd/podconfigctl-export.service StartLimitIntervalSec=0":      "", // no limit
	"systemd/podconfigd.service WatchdogSec=30s":                       "TestTimesOfDeploy",
	"systemd/podconfigd.service TimeoutAbortSec=20s":                   "TestTimesOfDeploy",
	"systemd/podconfigd.service TimeoutStopSec=10s":                    "TestTimesOfDeploy",
	"systemd/podconfigd.service RestartSec=1s":                         "", // a wait
	"systemd/podconfigd.service StartLimitIntervalSec=0":               "", // no limit
	"systemd/podconfigd.service LimitNOFILE=16384":                     "TestDescriptorsOfDeploy",
	"systemd/podconfigd.service MemoryMax=1G":                          "TestMemoryOfDeploy",
}

var limitInDeploy = regexp.MustCompile(`(?m)^\s*((?:\w*(?:Sec|Max|High|Burst)|Limit\w+|CPUQuota|\w*Size\w*)=\S*|` +
	`(?:\w*Seconds|\w*Threshold|cpu|memory|ephemeral-storage|pids|sizeLimit):\s.*)$`)

// Each limit in deploy is in the table, and the table has no others.
func TestLimitsOfDeploy(t *testing.T) {
	t.Parallel()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, folder := range []string{"kubernetes", "systemd"} {
		if err := filepath.WalkDir(filepath.Join(root, "deploy", folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			file, _ := filepath.Rel(filepath.Join(root, "deploy"), path)
			for _, match := range limitInDeploy.FindAllSubmatch(data, -1) {
				if limit := string(match[1]); !strings.HasPrefix(limit, "cpu: ") { // a request, as there is no limit of it
					found[file+" "+limit] = true
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for limit := range found {
		if _, listed := limitsOfDeploy[limit]; !listed {
			t.Errorf("no test runs %q at its worst legal input", limit)
		}
	}
	for limit := range limitsOfDeploy {
		if !found[limit] {
			t.Errorf("deploy has no %q", limit)
		}
	}
}

// ask opens a connection and sends a GET, whose answer nobody reads.
func ask(t *testing.T, network, address, path string) {
	t.Helper()
	var conn net.Conn
	testutil.Eventually(t, func() (err error) { // the backlog may be full
		conn, err = net.Dial(network, address)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) // it may be closed already: one too many
}

// probe asks as a kubelet does, until stop is closed, and returns the longest time of an answer and the largest number of
// failures in a row.
func probe(address string, stop <-chan struct{}) (slowest time.Duration, failures int) {
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}} // short: timeoutSeconds
	for row := 0; ; {
		select {
		case <-stop:
			return slowest, failures
		case <-time.After(100 * time.Millisecond):
		}
		begin := time.Now()
		resp, err := c.Get(address)
		slowest = max(slowest, time.Since(begin))
		if row++; err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				row = 0
			}
		}
		failures = max(failures, row)
	}
}

// pings returns the longest time between two pings of the watchdog, until stop is closed.
func (n notifications) pings(stop <-chan struct{}) (longest time.Duration) {
	buffer := make([]byte, 4096)
	for last := time.Now(); ; {
		select {
		case <-stop:
			return max(longest, time.Since(last))
		default:
		}
		_ = n.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // short: to look at stop
		if size, err := n.Read(buffer); err == nil && strings.Contains(string(buffer[:size]), "WATCHDOG=1") {
			longest, last = max(longest, time.Since(last)), time.Now()
		}
	}
}

// With as many clients as the limits allow, none of which reads, with the largest manifests edited again and again, and with a runtime
// and a file system that do not answer, the daemon starts, answers its probes, pings its watchdog and ends in the times of deploy.
func TestTimesOfDeploy(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	const (
		clients, edits      = 1024, 4
		started             = 60 * time.Second // 6 failures in 10 s each; systemd waits for 90 s by default
		watchdog            = 30 * time.Second
		liveness, readiness = 6, 3
	)
	for _, end := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, 10 * time.Second}, {syscall.SIGABRT, 20 * time.Second}} {
		t.Run(end.signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := testutil.ShortDir(t)
			d := &e2e.Daemon{Dir: dir}
			d.Mkdir(t)
			hung := filepath.Join(dir, "hung")
			if err := os.Mkdir(hung, 0o755); err != nil {
				t.Fatal(err)
			}
			for n := range 1000 {
				d.Put(t, fmt.Sprintf("pod-%03d", n), "image")
			}
			cri := fakecri.Start(t)
			metrics := components.FreeAddress(t)
			config := testutil.WriteFile(t, filepath.Join(dir, "config.yaml"), "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n"+
				"hostnameOverride: node1\nsocket: "+dir+"/s\nstaticPodPath: "+dir+"/manifests\nstateDir: "+dir+"/state\nmetricsBindAddress: "+metrics+
				"\nfileSources: [{name: x, path: "+hung+"}]\ncontainerRuntimeEndpoint: unix://"+cri.Socket+
				fmt.Sprintf("\nmaxSubscribers: %d\nmaxSubscribersPerProcess: %[1]d\n", clients))
			notes := listenForNotifications(t, filepath.Join(dir, "n"))
			cmd := exec.Command(e2e.Binary, "--config="+config)
			cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "n"), fmt.Sprint("WATCHDOG_USEC=", watchdog.Microseconds()))
			begin := time.Now()
			d = e2e.StartCommand(t, dir, cmd)
			testutil.Until(t, "the daemon is ready", func() bool { code, _, _ := d.Ask(t, "/readyz"); return code == 200 })
			if took := time.Since(begin); took > started {
				t.Errorf("it was ready after %v, limit %v", took, started)
			}

			s := d.Watch(t, client.Options{})
			e2e.SyncUp(t, s)

			stop, measured := make(chan struct{}), make(chan func(), 3)
			for path, threshold := range map[string]int{"/livez": liveness, "/readyz": readiness} {
				go func() {
					slowest, failures := probe("http://"+metrics+path, stop)
					measured <- func() {
						t.Logf("%s: the slowest answer took %v", path, slowest)
						if failures >= threshold {
							t.Errorf("%d probes of %s in a row failed, limit %d", failures, path, threshold)
						}
					}
				}()
			}
			go func() {
				longest := notes.pings(stop)
				measured <- func() {
					if t.Logf("%v between two pings", longest); longest > watchdog {
						t.Errorf("%v between two pings, limit %v", longest, watchdog)
					}
				}
			}()
			for range 100 {
				ask(t, "tcp", metrics, "/metrics")
			}
			for n := range clients {
				ask(t, "unix", d.Socket, "/v1alpha1/updates")
				ask(t, "unix", d.Socket, fmt.Sprintf("/v1alpha1/lookup?containerID=%064x&wait=1m", n))
				if n%16 == 0 {
					ask(t, "unix", d.Socket, "/api/v1/pods")
				}
			}
			for version := range edits {
				for name, manifest := range worst(version) {
					d.PutFile(t, strings.ReplaceAll(name, " ", "-"), manifest)
				}
				name := fmt.Sprint("zz-", version)
				d.Put(t, name, "image")
				for added := false; !added; {
					select {
					case u := <-s.Updates:
						added = slices.ContainsFunc(u.Pods, func(p *v1.Pod) bool { return p.Name == name+"-node1" })
					case <-time.After(testutil.Patience):
						t.Fatalf("edit %d is not delivered", version)
					}
				}
			}
			close(stop)
			for range cap(measured) {
				(<-measured)()
			}
			cri.Hang("*")
			testutil.Hang(t, hung)
			if took, err := d.End(t, end.signal); took > end.limit || (err != nil) != (end.signal == syscall.SIGABRT) {
				t.Errorf("it ended after %v, limit %v: %v", took, end.limit, err)
			} else {
				t.Logf("it ended after %v", took)
			}
		})
	}
}

// asNobody calls a function in a thread of another user, for which the sockets are opened.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	var errno syscall.Errno
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		const same, nobody = ^uintptr(0), 65534
		if _, _, errno = syscall.RawSyscall(syscall.SYS_SETRESUID, same, nobody, same); errno == 0 {
			do()
		}
	}()
	if <-done; errno != 0 {
		t.Skip("another user takes root: ", errno)
	}
}

// TestDescriptorsOfDeploy opens more connections than the file descriptors of the unit allow, with the largest limits of clients. The
// sources go on, and the probes are answered.
func TestDescriptorsOfDeploy(t *testing.T) {
	testutil.Long(t)
	const descriptors, sources, reserved = 16384, 60, 600
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < descriptors+2000 {
		t.Skipf("the test itself takes more than %d file descriptors, and may have %d: %v", descriptors, limit.Cur, err)
	}
	dir := testutil.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	metrics := components.FreeAddress(t)
	var named strings.Builder
	for n := range sources {
		fmt.Fprintf(&named, "- {name: s%d, path: %s/s%[1]d}\n", n, dir)
		if err := os.Mkdir(fmt.Sprintf("%s/s%d", dir, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := testutil.WriteFile(t, filepath.Join(dir, "config.yaml"), "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n"+
		"hostnameOverride: node1\nsocket: "+dir+"/s\nstateDir: "+dir+"/state\nsocketMode: \"0666\"\nmetricsBindAddress: "+metrics+
		"\nmaxSubscribers: 1048576\nmaxSubscribersPerProcess: 1048576\nfileSources:\n"+named.String())
	d := e2e.StartCommand(t, dir, exec.Command("sh", "-c", `ulimit -n `+strconv.Itoa(descriptors)+` && exec "$0" "$@"`, e2e.Binary, "--config="+config))
	testutil.Until(t, "the daemon is ready", func() bool { code, _, _ := d.Ask(t, "/readyz"); return code == 200 })
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	stop, done := make(chan struct{}), make(chan int)
	go func() { _, failures := probe("http://"+metrics+"/livez", stop); done <- failures }()
	for range 100 {
		ask(t, "tcp", metrics, "/metrics")
	}
	for range descriptors {
		ask(t, "unix", d.Socket, "/v1alpha1/updates")
	}
	asNobody(t, func() { // root has seven eighths
		for range descriptors / 8 {
			ask(t, "unix", d.Socket, "/v1alpha1/updates")
		}
	})
	for n := range sources {
		testutil.WriteFile(t, fmt.Sprintf("%s/s%d/pod.yaml", dir, n), fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: c, image: i}]}\n", n))
		s.Expect(t, fmt.Sprintf("ADD p%d-node1", n))
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Cmd.Process.Pid))
	t.Logf("%d descriptors, %d MiB", len(fds), mostResident(t, d.Cmd.Process.Pid)>>20)
	if err != nil || len(fds) < descriptors-reserved {
		t.Errorf("%d of %d descriptors are in use: %v", len(fds), descriptors, err)
	}
	close(stop)
	if failures := <-done; failures >= 6 {
		t.Errorf("%d probes in a row failed", failures)
	}
	if strings.Contains(d.Log.String(), "too many open files") {
		t.Error("the daemon ran out of descriptors")
	}
}
