package daemon

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// uids waits until the daemon has its pods, and returns their UIDs and its status. It can't store updates in some tests.
func uids(t *testing.T, d *e2e.Daemon) (map[string]types.UID, *v1alpha1.Status) {
	t.Helper()
	var status *v1alpha1.Status
	testutil.Eventually(t, func() (err error) {
		if status, err = d.Client.Status(t.Context()); err == nil && !status.Sources[0].Seen {
			err = fmt.Errorf("it has no pods yet: %+v", status.Sources)
		}
		return err
	})
	list, err := d.Client.Pods(t.Context())
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	all := make(map[string]types.UID)
	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].UID
	}
	return all, status
}

// restartForUIDs kills the daemon, and starts it again without --kubelet-version after the change. It returns whether the
// pods have the UIDs of before.
func restartForUIDs(t *testing.T, d *e2e.Daemon, state string, change func()) (kept bool, _ *e2e.Daemon) {
	t.Helper()
	before, _ := uids(t, d)
	d = d.Again(t, change, "--state-dir", state)
	after, status := uids(t, d)
	kept = maps.Equal(before, after)
	if !kept { // log and status say which rules are followed, and why
		if k := status.Kubelet; k.Source != "base" || k.Rules != "1.37" {
			t.Errorf("the UIDs changed, and the status is %+v", k)
		}
		testutil.Until(t, "the log says it", func() bool {
			return strings.Contains(d.Log.String(), `"Following the rules of a kubelet" version="1.37"`)
		})
	}
	return kept, d
}

// What decides the UIDs of static pods is in the journal. No other file of the state directory changes them, whatever is in it
// or if it is missing, nor does a journal that can't be written. If the journal itself is lost, log and status say which rules are followed.
func TestTheUIDsAndTheFilesOfTheStateDirectory(t *testing.T) {
	t.Parallel()
	change := map[string]func(t *testing.T, path string){
		"absent": func(t *testing.T, path string) {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		},
		"empty":   func(t *testing.T, path string) { testutil.WriteFile(t, path, "") },
		"garbage": func(t *testing.T, path string) { testutil.WriteFile(t, path, "garbage \x00\xff garbage") },
		"older":   func(t *testing.T, path string) { testutil.WriteFile(t, path, older(filepath.Base(path))) },
		"a directory": func(t *testing.T, path string) {
			_ = os.Remove(path)
			_ = os.MkdirAll(filepath.Join(path, "in it"), 0o755)
		},
		"of another node": func(t *testing.T, path string) { testutil.WriteFile(t, path, ofAnotherNode(t)[filepath.Base(path)]) },
		"not writable":    notWritable,
		"unchanged":       func(*testing.T, string) {},
	}
	for file, lost := range map[string]bool{"journal-0000000001.log": true, "lock": false, "access-rules": false, "kubelet.json": false} {
		for what, change := range change {
			t.Run(file+" "+what, func(t *testing.T) {
				t.Parallel()
				for _, first := range []bool{true, false} {
					d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
					state := filepath.Join(d.Dir, "state")
					if err := os.MkdirAll(state, 0o700); err != nil {
						t.Fatal(err)
					}
					d.Mkdir(t)
					d.Put(t, "web", "image")
					d.Put(t, "api", "image")
					if first {
						change(t, filepath.Join(state, file))
					}
					d = e2e.Start(t, d.Dir, "--state-dir", state, "--kubelet-version", "1.36")
					if file == "lock" && what == "a directory" {
						continue // nothing is stored
					}
					kept, d := restartForUIDs(t, d, state, func() {
						if !first {
							change(t, filepath.Join(state, file))
						}
					})
					if want := first || !lost || what == "unchanged" || what == "not writable"; kept != want {
						t.Errorf("first start: %t, the UIDs are kept: %t", first, kept)
					}
					if kept, _ := restartForUIDs(t, d, state, func() {}); !kept {
						t.Errorf("first start: %t: with nothing changed, the UIDs change", first)
					}
				}
			})
		}
	}
}

// ofAnotherNode returns the files of the state directory of another node.
func ofAnotherNode(t *testing.T) map[string]string {
	t.Helper()
	dir := testutil.ShortDir(t)
	state := filepath.Join(dir, "state")
	d := e2e.Start(t, dir, "--state-dir", state, "--hostname-override", "node2", "--kubelet-version", "1.34")
	d.Mkdir(t)
	d.Put(t, "web", "image")
	uids(t, d)
	stored(t, d, true)
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"kubelet.json": older("kubelet.json")} // only earlier versions write it
	entries, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(state, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}

// notWritable makes a file one that can't be written, replaced or removed, also by root. A missing one is empty.
func notWritable(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts a file, which takes root")
	}
	file, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if err := syscall.Mount(path, path, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
	if err := syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

// older returns what an earlier version could have left in the file: kubelet.json of an older kubelet.
func older(file string) string {
	if file == "kubelet.json" {
		return `{"version":"1.34","source":"sandboxes"}`
	}
	return "none 1"
}

// A disk that is full at the first start, or a state directory that is removed or can't be written, changes no UID.
func TestTheUIDsAndAStateDirectoryThatFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, during, between func(t *testing.T, d *e2e.Daemon, disk string)
	}{
		"full at the first start": {
			before: func(t *testing.T, d *e2e.Daemon, disk string) { fill(t, d, disk, "") },
			during: func(t *testing.T, d *e2e.Daemon, disk string) {
				stored(t, d, false)
				_ = os.Remove(filepath.Join(disk, "filler"))
			},
		},
		"removed": {during: func(t *testing.T, d *e2e.Daemon, disk string) {
			stored(t, d, true)
			if err := os.RemoveAll(filepath.Join(disk, "state")); err != nil {
				t.Fatal(err)
			}
			stored(t, d, false)
		}},
		"of another node in between": {between: func(t *testing.T, d *e2e.Daemon, disk string) {
			other := e2e.Start(t, d.Dir, "--state-dir", filepath.Join(disk, "state"), "--hostname-override", "localhost")
			uids(t, other)
			_ = other.Cmd.Process.Kill()
			_ = other.Cmd.Wait() // killed
		}},
		"not writable at the restart": {between: func(t *testing.T, _ *e2e.Daemon, disk string) {
			if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Geteuid() != 0 {
				t.Skip("mounts a file system, which takes root")
			}
			d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
			disk := filepath.Join(d.Dir, "disk")
			if err := os.Mkdir(disk, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
			mountTmpfs("2m")(t, disk)
			d.Mkdir(t)
			d.Put(t, "web", "image")
			if test.before != nil {
				test.before(t, d, disk)
			}
			state := filepath.Join(disk, "state")
			d = e2e.Start(t, d.Dir, "--state-dir", state, "--kubelet-version", "1.36")
			uids(t, d)
			if test.during != nil {
				test.during(t, d, disk)
			}
			stored(t, d, true)
			kept, _ := restartForUIDs(t, d, state, func() {
				if test.between != nil {
					test.between(t, d, disk)
				}
			})
			if !kept {
				t.Error("the UIDs changed")
			}
		})
	}
}

// All manifests are edited while the daemon is down, so that no UID of the last run shows the rules.
func TestTheUIDsOfManifestsThatWereEdited(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	state := filepath.Join(d.Dir, "state")
	d.Mkdir(t)
	d.Put(t, "web", "image:1")
	d = e2e.Start(t, d.Dir, "--state-dir", state, "--kubelet-version", "1.36")
	uids(t, d)
	d = d.Again(t, func() { d.Put(t, "web", "image:2") }, "--state-dir", state)
	got, status := uids(t, d)
	if k := status.Kubelet; k.Rules != "1.36" || k.Source != "state" {
		t.Errorf("%+v", k)
	}
	d = d.Again(t, func() {}, "--kubelet-version", "1.36")
	if want, _ := uids(t, d); !maps.Equal(got, want) {
		t.Errorf("UIDs %v, and by the rules of 1.36 %v", got, want)
	}
}

// A machine gets its name after the start, as from DHCP. Until then, the sockets answer and say so, and nothing gets the name
// localhost. The state directory stays that of the node.
func TestAHostNameThatComesLate(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("changes the host name in a namespace, which takes root")
	}
	for _, placeholder := range []string{"localhost", "localhost.localdomain", "(none)"} {
		t.Run(placeholder, func(t *testing.T) {
			t.Parallel()
			d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
			state := filepath.Join(d.Dir, "state")
			d.Mkdir(t)
			d.Put(t, "web", "image")
			d = e2e.Start(t, d.Dir, "--state-dir", state) // of node1
			before, status := uids(t, d)
			instance := status.Instance
			if _, err := d.End(t, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			const script = `printf %s "$0" >/proc/sys/kernel/hostname && exec "$@"` // the command refuses (none)
			d = e2e.StartCommand(t, d.Dir, exec.Command("unshare", "-u", "sh", "-c", script, placeholder, e2e.Binary,
				"--pod-manifest-path", filepath.Join(d.Dir, "manifests"), "--socket", filepath.Join(d.Dir, "s"), "--state-dir", state))
			testutil.Eventually(t, func() error {
				status, err := d.Client.Status(t.Context())
				if err == nil && (len(status.Problems) == 0 || status.Pods > 0 || !strings.Contains(strings.Join(status.Problems, " "), "set --hostname-override")) {
					err = fmt.Errorf("%d pods, problems %q", status.Pods, status.Problems)
				}
				return err
			})
			if code, _, text := d.Ask(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, placeholder) {
				t.Errorf("/readyz: %d %s", code, text)
			}
			setName := func(name string) {
				t.Helper()
				if out, err := exec.Command("nsenter", "--uts", "--target", fmt.Sprint(d.Cmd.Process.Pid), "hostname", name).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			setName("node1")
			testutil.Eventually(t, func() error {
				status, err := d.Client.Status(t.Context())
				if err == nil && (status.NodeName != "node1" || !status.Sources[0].Seen) {
					err = fmt.Errorf("it has not started yet: %+v", status.Sources)
				}
				return err
			})
			after, status := uids(t, d)
			if !maps.Equal(before, after) || status.Instance != instance {
				t.Errorf("pods %v of instance %s, want %v of %s", after, status.Instance, before, instance)
			}
			if status.Problems != nil {
				t.Errorf("problems: %q", status.Problems)
			}
			setName("node2") // the node keeps its name, and the status says so
			if _, status := uids(t, d); status.NodeName != "node1" || len(status.Problems) != 1 || !strings.Contains(status.Problems[0], "set --hostname-override=node1") {
				t.Errorf("node %s, problems %q", status.NodeName, status.Problems)
			}
			if aside, err := filepath.Glob(filepath.Join(state, "*othernode*")); err != nil || len(aside) > 0 {
				t.Errorf("%v was set aside, %v", aside, err)
			}
			if _, err := d.End(t, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
	}
}

// While the machine has no name, the daemon can be stopped, and --hostname-override starts it at once.
func TestWithoutAHostName(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("changes the host name in a namespace, which takes root")
	}
	for _, override := range []string{"", "node1"} {
		d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
		d.Mkdir(t)
		d.Put(t, "web", "image")
		d = e2e.StartCommand(t, d.Dir, exec.Command("unshare", "-u", "sh", "-c", `hostname localhost && exec "$@"`, "sh", e2e.Binary,
			"--pod-manifest-path", filepath.Join(d.Dir, "manifests"), "--socket", filepath.Join(d.Dir, "s"), "--hostname-override", override))
		testutil.Eventually(t, func() error { _, err := d.Client.Status(t.Context()); return err })
		if override != "" {
			if got, _ := uids(t, d); got["web-node1"] == "" {
				t.Errorf("%v", got)
			}
		}
		if _, err := d.End(t, syscall.SIGTERM); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}
