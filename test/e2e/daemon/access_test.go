package daemon

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Users of the test. They have no names.
var (
	ownerOfA = &syscall.Credential{Uid: 64001, Gid: 64001}
	member   = &syscall.Credential{Uid: 64002, Gid: 64002, Groups: []uint32{7, 64003}}
	stranger = &syscall.Credential{Uid: 64004, Gid: 64004, Groups: []uint32{64005}}
)

const accessRules = `
apiVersion: config.podconfigd.dev/v1alpha1
kind: PodConfigdConfiguration
access:
- uids: [64001]
  labelSelector: app=a
  view: full
- gids: [64003]
  view: redacted
  annotations: [keep]
- uids: [0]
  labelSelector: app=a
  view: metadata
`

// as returns a command of podconfigctl of a user.
func as(ctx context.Context, d *e2e.Daemon, who *syscall.Credential, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(d.Dir, "podconfigctl"), append(args, "--socket", d.Socket)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	return cmd
}

// pods returns what a user sees, by name, or the error.
func podsOf(t *testing.T, d *e2e.Daemon, who *syscall.Credential) (map[string]*v1.Pod, string) {
	t.Helper()
	cmd := as(t.Context(), d, who, "get", "pods", "-A", "-o", "json")
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, failure.String()
	}
	var list v1.PodList
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pods := make(map[string]*v1.Pod)
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods, ""
}

// serveWithRules starts a daemon whose socket all users can connect to, with access rules.
func serveWithRules(t *testing.T, rules string) *e2e.Daemon {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run commands as another user")
	}
	dir := testutil.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(e2e.Ctl, filepath.Join(dir, "podconfigctl")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	d := e2e.Start(t, dir, "--config", config, "--socket-mode", "0666", "--state-dir", filepath.Join(dir, "state"))
	d.Mkdir(t)
	for _, name := range []string{"a", "b"} {
		d.PutFile(t, name, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}, annotations: {keep: kept, drop: canary}}
spec: {containers: [{name: c, image: i, args: [canary], env: [{name: PASSWORD, value: canary}]}]}
`, name, name))
	}
	testutil.Until(t, "the pods are there", func() bool {
		pods, failure := podsOf(t, d, member)
		return failure == "" && len(pods) == 2
	})
	return d
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the first error is the one to report
		return err
	}
	return out.Close()
}

// TestAccessRulesOfUsers runs clients as other users, with supplementary groups.
func TestAccessRulesOfUsers(t *testing.T) {
	t.Parallel()
	d := serveWithRules(t, accessRules)
	mine, failure := podsOf(t, d, ownerOfA)
	if a := mine["a-node1"]; failure != "" || len(mine) != 1 || a.Spec.Containers[0].Env[0].Value != "canary" {
		t.Errorf("the owner of a sees %v, %s", mine, failure)
	}
	members, failure := podsOf(t, d, member)
	if failure != "" || len(members) != 2 {
		t.Fatalf("a member sees %v, %s", members, failure)
	}
	for name, p := range members {
		if p.Annotations["keep"] != "kept" || p.Spec.Containers[0].Env[0].Name != "PASSWORD" || strings.Contains(fmt.Sprint(p), "canary") {
			t.Errorf("a member sees of %s: %v", name, p)
		}
	}
	if roots, failure := podsOf(t, d, &syscall.Credential{}); failure != "" || len(roots) != 1 || roots["a-node1"].Spec.Containers[0].Image != "" {
		t.Errorf("root sees %v, %s", roots, failure)
	}
	if pods, failure := podsOf(t, d, stranger); !strings.Contains(failure, "the user with UID 64004 may not read pods: no access rule shows any to it") {
		t.Errorf("a stranger sees %v, %s", pods, failure)
	}
	for range 3 {
		podsOf(t, d, stranger)
	}
	if n := strings.Count(d.Log.String(), `"Refused a client by the access rules`); n != 1 {
		t.Errorf("%d log lines tell of the stranger, want 1", n)
	}
	// Standard tools, with their own way to another user.
	out, err := exec.CommandContext(t.Context(), "setpriv", "--reuid", "64001", "--regid", "64001", "--clear-groups",
		filepath.Join(d.Dir, "podconfigctl"), "get", "pods", "-A", "-o", "name", "--socket", d.Socket).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "pod/a-node1" {
		t.Errorf("%v: %s", err, out)
	}
	// The mode of the socket comes before the rules. This is the default.
	if err := os.Chmod(d.Socket, 0o660); err != nil {
		t.Fatal(err)
	}
	if pods, failure := podsOf(t, d, ownerOfA); !strings.Contains(failure, "permission denied") {
		t.Errorf("a user that can't open the socket sees %v, %s", pods, failure)
	}
}

// TestAccessRulesAreReplaced replaces the rules while a stream is open: with SIGHUP, and by a
// restart.
func TestAccessRulesAreReplaced(t *testing.T) {
	t.Parallel()
	d := serveWithRules(t, accessRules)
	watch := as(t.Context(), d, member, "watch", "-o", "json")
	lines := testutil.Buffer{}
	watch.Stdout = &lines
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
	}()
	synced := func(n int) func() bool {
		return func() bool { return strings.Count(lines.String(), `"initialSyncComplete":true`) == n }
	}
	testutil.Until(t, "the stream has the pods", synced(1))
	reload := func(rules string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d.Dir, "config.yaml"), []byte(rules), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	wider := strings.Replace(accessRules, "annotations: [keep]", "annotations: [keep, drop]", 1)
	reload(wider)
	testutil.Until(t, "the stream starts again after SIGHUP", synced(2))
	if _, after, reset := strings.Cut(lines.String(), `"message":"the access rules changed"`); !reset || !strings.Contains(after, `"drop":"canary"`) || strings.Contains(after, `"value":"canary"`) {
		t.Errorf("after the reload: %s", after)
	}
	restart := func() {
		t.Helper()
		if _, err := d.End(t, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		d = e2e.StartCommand(t, d.Dir, exec.Command(e2e.Binary, d.Cmd.Args[1:]...))
	}
	narrower := strings.Replace(accessRules, "  view: redacted\n  annotations: [keep]\n", "  labelSelector: app=b\n  view: metadata\n", 1)
	if err := os.WriteFile(filepath.Join(d.Dir, "config.yaml"), []byte(narrower), 0o644); err != nil {
		t.Fatal(err)
	}
	restart()
	testutil.Until(t, "the stream starts again", synced(3))
	_, after, reset := strings.Cut(lines.String(), `"message":"the access rules changed after revision`)
	if !reset || strings.Contains(after, "a-node1") || !strings.Contains(after, "b-node1") || strings.Contains(after, "PASSWORD") {
		t.Errorf("after the restart: %s", after)
	}
	// With the same rules, the stream resumes after a restart. It needs a revision that it got by
	// these rules. Before the source delivers its first set, there is none.
	testutil.Until(t, "the source is seen", func() bool {
		_, after, _ := strings.Cut(lines.String(), `"message":"the access rules changed after revision`)
		return strings.Contains(after, `"ready":true`)
	})
	restart()
	d.PutFile(t, "b", "apiVersion: v1\nkind: Pod\nmetadata: {name: b, labels: {app: b, is: last}}\nspec: {containers: [{name: c, image: i}]}\n")
	testutil.Until(t, "the stream has the change", func() bool { return strings.Contains(lines.String(), `"is":"last"`) })
	if !synced(3)() {
		t.Errorf("the stream started again without a reason: %s", lines.String())
	}
}

// A certificate whose user has the name of a user of this machine does not show what the rules show the user of this
// machine.
func TestNamesOfCertificates(t *testing.T) {
	t.Parallel()
	authority := components.NewAuthority(t, "clients")
	pair, err := tls.X509KeyPair(authority.Issue(t, "root", "cni"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rules, want string // want is the image in the list of the certificate; empty if it is refused
	}{
		"rules of before":     {"[{users: [root], groups: [cni], view: full}, {view: metadata}]", ""},
		"authenticated users": {"[{users: [root], view: full}, {authenticatedUsers: [root], view: redacted}]", `"image":"i"`},
		"others":              {"[{users: [root], view: full}, {authenticatedUsers: [alice], view: full}, {view: metadata}]", `"name":"c"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := testutil.ShortDir(t)
			config := filepath.Join(dir, "config.yaml")
			text := "apiVersion: config.podconfigd.dev/v1alpha1\nkind: PodConfigdConfiguration\naccess: " + c.rules + "\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d, s := e2e.Local(t, "--config", config, "--client-ca-file", e2e.CAFile(t, dir, authority.PEM), "--authorization-mode", "AlwaysAllow")
			d.Put(t, "a", "i")
			d.Await(t, "the pod", func() bool {
				pods, err := d.Client.Pods(t.Context())
				return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.Containers[0].Image == "i" // root, on the socket
			})
			code, _, body := s.Get(t, s.Client(t, 2, pair), "GET", "/pods", "")
			if c.want == "" && code != http.StatusForbidden || c.want != "" && !strings.Contains(body, c.want) {
				t.Errorf("the certificate sees %d %s", code, body)
			}
			if name == "others" && strings.Contains(body, `"image"`) {
				t.Errorf("the certificate sees the images: %s", body)
			}
			if warned := strings.Contains(d.Log.String(), "use authenticatedUsers and authenticatedGroups"); warned != (c.want == "") {
				t.Errorf("it warned: %v", warned)
			}
		})
	}
}
