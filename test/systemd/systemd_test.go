// Package systemd tests the units of deploy/systemd with Debian's systemd as PID 1.
package systemd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podconfigd/podconfigd/pkg/kubelet/podsapi"
	"github.com/podconfigd/podconfigd/test/machine"
	"github.com/podconfigd/podconfigd/test/testutil"
)

const (
	socketPath = "/run/podconfigd/podconfigd.sock"
	configPath = "/etc/podconfigd/config.yaml"
	config     = `apiVersion: config.podconfigd.dev/v1alpha1
kind: PodConfigdConfiguration
staticPodPath: /etc/kubernetes/manifests
stateDir: /var/lib/podconfigd
socketGroup: nogroup
listen: [unix:///run/podconfigd/agents.sock, http://127.0.0.1:10255]
`
	pod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i}]}
`
)

// node is a machine with podconfigd.
type node struct {
	*machine.Machine
	client *http.Client
}

// install starts a machine and installs podconfigd and its units, with a drop-in for the service
// and one for the socket.
func install(t *testing.T, service, socket string) *node {
	t.Helper()
	n := &node{Machine: machine.Start(t)} // first, because it can skip the test
	program := testutil.MustProgram(t, ".", "./cmd/podconfigd")
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	units := filepath.Join(root, "deploy", "systemd")
	n.Copy(t, program, "/usr/bin/podconfigd")
	n.Copy(t, testutil.MustProgram(t, ".", "./cmd/podconfigctl"), "/usr/bin/podconfigctl")
	for _, unit := range []string{"podconfigd.service", "podconfigd.socket"} {
		n.Copy(t, filepath.Join(units, unit), "/etc/systemd/system/"+unit)
	}
	n.Copy(t, filepath.Join(units, "sysusers.conf"), "/etc/sysusers.d/podconfigd.conf")
	n.Run(t, "systemd-sysusers")
	n.Write(t, "/etc/systemd/system/podconfigd.service.d/test.conf", service)
	n.Write(t, "/etc/systemd/system/podconfigd.socket.d/test.conf", socket)
	n.Write(t, configPath, config)
	n.Write(t, "/etc/kubernetes/manifests/web.yaml", pod)
	n.Run(t, "chown", "-R", "nobody", "/etc/kubernetes/manifests") // not the user of podconfigd
	n.Run(t, "chmod", "-R", "u=rwX,go=", "/etc/kubernetes/manifests")
	n.Run(t, "systemctl", "daemon-reload")
	n.client = &http.Client{Timeout: testutil.Patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", n.Path(socketPath))
		},
	}}
	return n
}

// get requests a path on a new connection, and returns the body of the answer.
func (n *node) get(path string) (string, error) {
	resp, err := n.client.Get("http://localhost" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// stream opens a stream on a new connection. A daemon that stops ends it, maybe before the first
// line.
func (n *node) stream() error {
	resp, err := n.client.Get("http://localhost/v1alpha1/updates")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = resp.Body.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ready waits until the daemon has read its sources.
func (n *node) ready(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error {
		_, err := n.get("/readyz")
		return err
	})
}

func TestTheService(t *testing.T) {
	t.Parallel()
	n := install(t, "[Service]\nTimeoutAbortSec=100ms\nRestartSec=10ms\n", "")
	// A client that connects to the socket starts the service.
	n.Run(t, "systemctl", "start", "podconfigd.socket")
	if state := n.Show(t, "podconfigd.service", "ActiveState"); state != "inactive" {
		t.Errorf("the service is %s before a client connects", state)
	}
	if _, err := n.get("/livez"); err != nil {
		t.Error(err)
	}
	n.ready(t)
	for _, unit := range []string{"podconfigd.service", "podconfigd.socket"} {
		testutil.Until(t, unit+" is active", func() bool {
			return n.Show(t, unit, "ActiveState")+"/"+n.Show(t, unit, "SubState") == "active/running"
		})
	}
	testutil.Until(t, "the status of the service has the pod", func() bool {
		return n.Show(t, "podconfigd.service", "StatusText") == "Serving 1 pods"
	})
	// The socket has the mode and the group of the socket unit, or of the configuration.
	n.expectOwner(t, socketPath, "root:podconfigd 660")
	n.expectOwner(t, "/run/podconfigd/agents.sock", "root:nogroup 660")
	if out := n.Run(t, "podconfigctl", "get", "pods", "--server=http://127.0.0.1:10255"); !strings.Contains(out, "web-node1") {
		t.Errorf("the read-only port has\n%s", out)
	}
	t.Run("analyze", n.testAnalyze)
	t.Run("lookup", n.testLookup)
	t.Run("kubelet", n.testKubelet)
	t.Run("reload", n.testReload)
	t.Run("restarts", n.testRestarts)
	t.Run("watchdog", n.testWatchdog)
	t.Run("removed", n.testRemoved)
	if log := n.Log("podconfigd.socket"); strings.Contains(log, "failed") {
		t.Errorf("the socket unit failed:\n%s", log)
	}
	n.Run(t, "systemctl", "stop", "podconfigd.socket", "podconfigd.service")
	if _, err := os.Lstat(n.Path(socketPath)); !os.IsNotExist(err) {
		t.Errorf("the socket after the stop of its unit: %v", err)
	}
}

// expectOwner checks the owner, the group and the mode of a socket.
func (n *node) expectOwner(t *testing.T, path, want string) {
	t.Helper()
	if got := n.Run(t, "stat", "--format=%U:%G %a", path); got != want {
		t.Errorf("%s is %s, want %s", path, got, want)
	}
}

// A socket whose file is removed is made again, and a restart of both units gives it back to systemd.
func (n *node) testRemoved(t *testing.T) {
	n.Run(t, "rm", socketPath)
	testutil.Eventually(t, func() error {
		_, err := n.get("/livez")
		return err
	})
	n.expectOwner(t, socketPath, "root:podconfigd 660")
	n.Run(t, "systemctl", "restart", "podconfigd.service") // systemd passes a socket without a file
	n.ready(t)
	n.expectOwner(t, socketPath, "root:nogroup 660")
	n.Run(t, "systemctl", "stop", "podconfigd.service", "podconfigd.socket")
	n.Run(t, "rm", "-r", "/run/podconfigd")
	n.Run(t, "systemctl", "start", "podconfigd.socket", "podconfigd.service")
	n.ready(t)
	n.expectOwner(t, socketPath, "root:podconfigd 660")
}

// exposure is the largest exposure that "systemd-analyze security" may find, in tenths.
const exposure = "28"

func (n *node) testAnalyze(t *testing.T) {
	if out := n.Run(t, "systemd-analyze", "verify", "--man=no", "/etc/systemd/system/podconfigd.service", "/etc/systemd/system/podconfigd.socket"); out != "" {
		t.Errorf("verify: %s", out)
	}
	out := n.Run(t, "systemd-analyze", "security", "--offline=true", "--threshold="+exposure, "/etc/systemd/system/podconfigd.service") // fails above it
	t.Log(out[strings.LastIndex(out, "\n")+1:])
}

// The hardening leaves the processes of the node visible.
func (n *node) testLookup(t *testing.T) {
	sleep := n.Command("setpriv", "--reuid=65534", "--clear-groups", "sleep", "1h")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
	}()
	var pid string
	testutil.Until(t, "the process of another user runs", func() bool {
		var err error
		pid, err = n.Try("pgrep", "--uid", "65534", "sleep")
		return err == nil
	})
	if out, err := n.Try("podconfigctl", "lookup", pid); err == nil || !strings.Contains(out, "it runs in no container: its cgroup is") {
		t.Errorf("lookup of a process of another user: %s", out)
	}
}

// A reload is visible as such, and changes the sources.
func (n *node) testReload(t *testing.T) {
	n.Write(t, "/srv/more/more.yaml", strings.ReplaceAll(pod, "web", "more"))
	n.Write(t, configPath, config+"fileSources: [{name: more, path: /srv/more}]\n")
	n.Run(t, "systemctl", "reload", "podconfigd.service")
	testutil.Until(t, "the new source is there", func() bool {
		pods, err := n.get("/pods")
		return err == nil && strings.Contains(pods, "more-node1")
	})
	testutil.Until(t, "the service runs again", func() bool { return n.Show(t, "podconfigd.service", "SubState") == "running" })
}

// No client notices that the daemon restarts: those that connect meanwhile wait in the socket of
// systemd.
func (n *node) testRestarts(t *testing.T) {
	const restarts = 20
	stopped := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	requests := map[string]int{"pods": 0, "api": 0, "status": 0, "stream": 0}
	for name, request := range map[string]func() error{
		"pods":   func() error { _, err := n.get("/pods"); return err },
		"api":    func() error { _, err := n.get("/api/v1/pods"); return err },
		"status": func() error { _, err := n.get("/v1alpha1/status"); return err },
		"stream": n.stream,
	} {
		clients.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
				}
				if err := request(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				requests[name]++
				mu.Unlock()
			}
		})
	}
	fewest := func() int {
		mu.Lock()
		defer mu.Unlock()
		return slices.Min(slices.Collect(maps.Values(requests)))
	}
	count := 0
	for ; count < restarts || fewest() < restarts; count++ {
		n.Run(t, "systemctl", "restart", "podconfigd.service")
	}
	close(stopped)
	clients.Wait()
	t.Logf("answered during %d restarts: %v", count, requests)
}

// A daemon that hangs is killed and replaced.
func (n *node) testWatchdog(t *testing.T) {
	// Only this process has a short limit, which one that is only slow might exceed too.
	const path = "/etc/systemd/system/podconfigd.service.d/watchdog.conf"
	n.Write(t, path, "[Service]\nWatchdogSec=10s\n")
	n.Run(t, "systemctl", "daemon-reload")
	n.Run(t, "systemctl", "restart", "podconfigd.service")
	n.Run(t, "rm", path)
	n.Run(t, "systemctl", "daemon-reload")
	before := n.Show(t, "podconfigd.service", "MainPID")
	n.Run(t, "kill", "-STOP", before)
	testutil.Until(t, "all its threads are stopped", func() bool {
		out, err := n.Try("ps", "-L", "--no-headers", "-o", "state", before)
		return err != nil || strings.Trim(out, "T\n") == "" // it may have been killed already
	})
	// SIGABRT is followed by SIGCONT. So the old one may answer while it writes its stacks.
	testutil.Eventually(t, func() error {
		if pid := n.Show(t, "podconfigd.service", "MainPID"); pid == before || pid == "0" {
			return fmt.Errorf("the daemon is still %s, and no new one", pid)
		}
		_, err := n.get("/livez")
		return err
	})
	testutil.Until(t, "the log has the timeout of the watchdog", func() bool {
		return strings.Contains(n.Log("podconfigd.service"), "Watchdog timeout")
	})
}

// kubelet serves the Pods API as a kubelet does that has one pod.
type kubelet struct {
	podsv1alpha1.UnimplementedPodsServer

	pod v1.Pod
}

func (k *kubelet) WatchPods(_ *podsv1alpha1.WatchPodsRequest, stream podsv1alpha1.Pods_WatchPodsServer) error {
	data, err := k.pod.Marshal()
	if err != nil {
		return err
	}
	for _, e := range []*podsv1alpha1.WatchPodsEvent{
		{Type: podsv1alpha1.EventType_ADDED, Pod: data}, {Type: podsv1alpha1.EventType_INITIAL_SYNC_COMPLETE},
	} {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// The service takes the status of pods from the socket of a kubelet, which only root may open: from one that starts
// later, and from one that starts again.
func (n *node) testKubelet(t *testing.T) {
	pods := new(v1.PodList)
	body, err := n.get("/pods")
	if err == nil {
		err = json.Unmarshal([]byte(body), pods)
	}
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	n.Run(t, "install", "--directory", "--mode=0700", filepath.Dir(podsapi.DefaultPath))
	for _, message := range []string{"at first", "again"} {
		k := &kubelet{pod: pods.Items[0]}
		k.pod.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: new(metav1.Now()), Message: message}
		path := n.Path(podsapi.DefaultPath)
		_ = os.Remove(path) // a kubelet that was killed leaves it
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		podsv1alpha1.RegisterPodsServer(server, k)
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(l) // it ends with Stop
		}()
		testutil.Eventually(t, func() error {
			body, err := n.get("/pods")
			if err == nil && !strings.Contains(body, fmt.Sprintf(`"message":%q`, message)) {
				err = errors.New(body)
			}
			return err
		})
		server.Stop()
		<-served
	}
	testutil.Eventually(t, func() error {
		out, _ := n.Try("podconfigctl", "status")
		if !strings.Contains(out, podsapi.DefaultPath+" gives no status") {
			return fmt.Errorf("the status has no lost kubelet:\n%s", out)
		}
		return nil
	})
}
