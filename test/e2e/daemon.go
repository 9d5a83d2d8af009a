package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// Binary is the daemon as built by "make build".
var Binary string

// Ctl is podconfigctl as built by "make build".
var Ctl string

// parallel is how many tests run at a time at least: most of them mostly wait for servers.
const parallel = 4

// Main is the TestMain of a package whose tests run the daemon: it builds the programs, and checks for leaks.
func Main(m *testing.M) {
	os.Exit(func() int {
		var err error
		for pkg, path := range map[string]*string{"./cmd/podconfigd": &Binary, "./cmd/podconfigctl": &Ctl} {
			if *path, err = testutil.Program(".", pkg); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		testutil.Parallel(parallel)
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// Daemon is a running podconfigd.
type Daemon struct {
	Cmd    *exec.Cmd
	Dir    string
	Socket string
	Client *client.Client
	Log    *testutil.Buffer
}

// Start runs podconfigd on the directory "manifests" of dir.
func Start(t *testing.T, dir string, args ...string) *Daemon {
	t.Helper()
	args = append([]string{
		"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", filepath.Join(dir, "s"), "--hostname-override", "node1",
	}, args...)
	return StartCommand(t, dir, exec.Command(Binary, args...))
}

// StartCommand starts podconfigd with a command that uses the socket "s" of dir.
func StartCommand(t *testing.T, dir string, cmd *exec.Cmd) *Daemon {
	t.Helper()
	d := &Daemon{Dir: dir, Socket: filepath.Join(dir, "s"), Log: new(testutil.Buffer), Cmd: cmd}
	d.Client = client.New(d.Socket)
	d.Cmd.Stdout, d.Cmd.Stderr = d.Log, d.Log
	if err := d.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.Cmd.ProcessState == nil {
			_ = d.Cmd.Process.Kill()
			_ = d.Cmd.Wait()
		}
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", d.Log)
		}
	})
	return d
}

// Mkdir makes the directory of manifests.
func (d *Daemon) Mkdir(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(d.Dir, "manifests"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Put puts a manifest of a pod with the name into the directory, in one step.
func (d *Daemon) Put(t *testing.T, name, image string) {
	t.Helper()
	d.PutFile(t, name, podtest.Manifest(name, image))
}

// PutFile puts a manifest into the directory, in one step.
func (d *Daemon) PutFile(t *testing.T, name, manifest string) {
	t.Helper()
	temp := filepath.Join(d.Dir, name)
	if err := os.WriteFile(temp, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(d.Dir, "manifests", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// End sends the signal. It returns how long the daemon took to end, and its exit error.
func (d *Daemon) End(t *testing.T, signal os.Signal) (took time.Duration, err error) {
	t.Helper()
	begin := time.Now()
	if err := d.Cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	err = d.Cmd.Wait()
	return time.Since(begin), err
}

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := d.Cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Again kills the daemon and starts it again after the change.
func (d *Daemon) Again(t *testing.T, change func(), args ...string) *Daemon {
	t.Helper()
	d.Signal(t, syscall.SIGKILL)
	_ = d.Cmd.Wait() // killed
	change()
	return Start(t, d.Dir, args...)
}

// Ask returns the status code, the header and the body of an answer.
func (d *Daemon) Ask(t *testing.T, path string) (code int, header http.Header, body string) {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	}, DisableKeepAlives: true}}
	testutil.Eventually(t, func() error { // the daemon may be starting
		resp, err := web.Get("http://podconfigd" + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		code, header, body = resp.StatusCode, resp.Header, string(data)
		return err
	})
	return code, header, body
}

// Source returns the status of a source; a zero one if the daemon does not answer.
func (d *Daemon) Source(t *testing.T, name string) v1alpha1.SourceStatus {
	t.Helper()
	status, err := d.Client.Status(t.Context())
	if err != nil {
		return v1alpha1.SourceStatus{}
	}
	for _, source := range status.Sources {
		if source.Name == name {
			return source
		}
	}
	return v1alpha1.SourceStatus{}
}

// Broken is a manifest that is rejected.
const Broken = "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec: {containers: [{name: c, image: i, ports: [{containerPort: many}]}]}\n"

// HostManifest is a pod on the host's network.
const HostManifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n" +
	"spec: {hostNetwork: true, containers: [{name: c, image: " + components.Image + "}]}\n"
