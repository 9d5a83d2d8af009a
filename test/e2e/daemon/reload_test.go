package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// notifications are what a daemon tells its service manager.
type notifications struct{ *net.UnixConn }

func listenForNotifications(t *testing.T, path string) notifications {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return notifications{conn}
}

// expect waits for a notification with the prefix.
func (n notifications) expect(t *testing.T, prefix string) {
	t.Helper()
	_ = n.SetReadDeadline(time.Now().Add(testutil.Patience))
	buffer := make([]byte, 4096)
	for {
		size, err := n.Read(buffer)
		if err != nil {
			t.Fatalf("no %q: %v", prefix, err)
		}
		if strings.HasPrefix(string(buffer[:size]), prefix) {
			return
		}
	}
}

// changes waits for the next updates with pods, "OP source pod pod".
func changes(t *testing.T, s *e2e.Stream, want ...string) {
	t.Helper()
	for _, line := range want {
		got := ""
		for got == "" {
			select {
			case u := <-s.Updates:
				if u.Op == v1alpha1.OpBookmark {
					continue
				}
				got = string(u.Op) + " " + u.Source
				for _, p := range u.Pods {
					got += " " + p.Name
				}
			case <-time.After(testutil.Patience):
				t.Fatalf("no %q", line)
			}
		}
		if got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	}
}

// logged waits until the log has the line.
func logged(t *testing.T, d *e2e.Daemon, want string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if !strings.Contains(d.Log.String(), want) {
			return fmt.Errorf("the log has no %s", want)
		}
		return nil
	})
}

// SIGHUP loads the config file again. A subscriber sees what changes, and nothing else.
func TestSIGHUPReloads(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	put := func(source, name string) {
		t.Helper()
		path := filepath.Join(dir, source, name+".yaml")
		manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: i}]}\n", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(manifest), 0o644), os.Rename(filepath.Join(dir, name), path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{"manifests", "x", "b"} {
		put(source, source+"1")
	}
	file := filepath.Join(dir, "config.yaml")
	configure := func(lines string) {
		t.Helper()
		content := "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\n" +
			"hostnameOverride: node1\nsocket: " + dir + "/s\nstaticPodPath: " + dir + "/manifests\n" + lines
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	configure("fileSources: [{name: x, path: " + dir + "/x}]\n")
	notes := listenForNotifications(t, filepath.Join(dir, "n"))
	cmd := exec.Command(e2e.Binary, "--config="+file)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(dir, "n"))
	d := e2e.StartCommand(t, dir, cmd)
	notes.expect(t, "READY=1")
	s := d.Watch(t, client.Options{})
	e2e.SyncUp(t, s)
	reload := func(want string) {
		t.Helper()
		if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		notes.expect(t, "RELOADING=1\nMONOTONIC_USEC=")
		notes.expect(t, "READY=1")
		logged(t, d, want)
	}

	configure("fileSources: [{name: b, path: " + dir + "/b}]\nlogging: {verbosity: 2}\nsocketMode: \"0600\"\n")
	reload(`"Reloaded the configuration" changed=["fileSources","logging.verbosity"] needRestart=["socketMode"]`)
	changes(t, s, "REMOVE file:x x1-node1", "ADD file:b b1-node1")
	logged(t, d, `"Removing the pods of a source that is no longer configured" source="file:x" pods=1`)
	put("b", "b2")
	changes(t, s, "ADD file:b b2-node1")
	logged(t, d, `"SyncLoop ADD" source="file:b" pods=["default/b2-node1"]`) // -v=2

	configure("fileSources: [{name: z, path: " + dir + "/z}]\nsyncFrequency: soon\nsurprise: true\n")
	reload(`"Could not reload the configuration, nothing has changed" err="`)
	for _, want := range []string{file + ":7: syncFrequency", file + ":8: "} {
		logged(t, d, want)
	}
	put("b", "b3")
	changes(t, s, "ADD file:b b3-node1")

	configure("fileSources: [{name: b, path: " + dir + "/b}]\n")
	reload(`"Reloaded the configuration" changed=["logging.verbosity"] needRestart=[]`)
	for range 100 {
		if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	put("manifests", "m2")
	changes(t, s, "ADD file m2-node1")
	if took, err := d.End(t, syscall.SIGTERM); err != nil || took > 30*time.Second {
		t.Errorf("it ended with %v after %v", err, took)
	}
	if log := d.Log.String(); strings.Count(log, "Could not reload") != 1 {
		t.Error("the log has other failures")
	}
}

// Changes of the files of the kubelet are taken without a signal. What needs a restart, or can't be used, is in the status.
func TestFilesOfTheKubeletThatChange(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	for _, name := range []string{"a", "b", "d"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name, fields string) {
		t.Helper()
		testutil.WriteFile(t, filepath.Join(dir, name), "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields+"\n")
	}
	testutil.WriteFile(t, filepath.Join(dir, "a", "web.yaml"), podtest.Manifest("web", "image"))
	testutil.WriteFile(t, filepath.Join(dir, "b", "api.yaml"), podtest.Manifest("api", "image"))
	put("kubelet", "staticPodPath: "+filepath.Join(dir, "a"))
	put("d/10.conf", "maxPods: 3")
	own := filepath.Join(dir, "own")
	testutil.WriteFile(t, own, "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\nhostnameOverride: node1\n")
	d := e2e.StartCommand(t, dir, exec.Command(e2e.Binary, "--config", own, "--socket", filepath.Join(dir, "s"),
		"--kubelet-config", filepath.Join(dir, "kubelet"), "--kubelet-config-dir", filepath.Join(dir, "d")))
	s := d.Watch(t, client.Options{})
	changes(t, s, "ADD file web-node1")
	testutil.WriteFile(t, own, "hostnameOverride: [") // it is not read
	put("d/20.conf", "staticPodPath: "+filepath.Join(dir, "b"))
	changes(t, s, "REMOVE file web-node1", "ADD file api-node1")
	problems := func(want string) {
		t.Helper()
		testutil.Eventually(t, func() error {
			status, err := d.Client.Status(t.Context())
			if got := strings.Join(status.Problems, "; "); err == nil && (want == "" && got != "" || !strings.Contains(got, want)) {
				err = fmt.Errorf("the problems are %q, want %q", got, want)
			}
			return err
		})
	}
	problems("")
	put("d/20.conf", "staticPodPath: "+filepath.Join(dir, "b")+"\ncontainerRuntimeEndpoint: unix:///nowhere")
	problems("changes of the configuration need a restart: containerRuntimeEndpoint")
	put("d/20.conf", "staticPodPath: "+filepath.Join(dir, "a")+"\nsyncFrequency: -1s")
	problems("the changed configuration can't be used: " + filepath.Join(dir, "d", "20.conf") + ":4: syncFrequency")
	put("d/20.conf", "staticPodPath: "+filepath.Join(dir, "b"))
	problems("")
	lastReload(t, d, "1")
	put("d/20.conf", "staticPodPath: [")
	problems("the changed configuration can't be used: " + filepath.Join(dir, "d", "20.conf") + ":3: ")
	lastReload(t, d, "0")
	put("d/20.conf", "staticPodPath: "+filepath.Join(dir, "b")) // as before
	logged(t, d, `"The change of the configuration of the kubelet was taken back"`)
	problems("")
	lastReload(t, d, "1")
	if err := os.Remove(filepath.Join(dir, "d", "20.conf")); err != nil {
		t.Fatal(err)
	}
	changes(t, s, "REMOVE file api-node1", "ADD file web-node1")
	if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	problems("the changed configuration can't be used: " + own + ":1: ")
	<-time.After(6 * time.Second) // the files of the kubelet are read three times, and have not changed
	problems("the changed configuration can't be used: " + own + ":1: ")
	lastReload(t, d, "0")
}

// lastReload waits until the metric of the last reload has the value: it is set after the status.
func lastReload(t *testing.T, d *e2e.Daemon, want string) {
	t.Helper()
	testutil.Eventually(t, func() error {
		if _, _, metrics := d.Ask(t, "/metrics"); !strings.Contains(metrics, "\npodconfigd_config_last_reload_successful "+want+"\n") {
			return fmt.Errorf("the metric of the last reload is not %s:\n%s", want, metrics)
		}
		return nil
	})
}
