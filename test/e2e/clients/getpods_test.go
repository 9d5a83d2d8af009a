package clients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// sortedPods are manifests that differ in what is selected and sorted.
var sortedPods = []string{
	"{name: web, labels: {app: web, tier: front}}|{priority: 100, containers: [{name: c, image: 'nginx:1', resources: {limits: {memory: 64Mi}}}, {name: d, image: 'envoy:2'}]}",
	"{name: db, labels: {app: db}, annotations: {note: \"two\\nlines\"}}|{restartPolicy: Never, priority: 9, containers: [{name: c, image: 'postgres:16', resources: {limits: {memory: 1Gi}}}]}",
	"{name: agent, namespace: kube-system, labels: {app: agent, tier: node}}|{hostNetwork: true, containers: [{name: c, image: 'agent:3', args: ['--a=<b>&c'], resources: {limits: {memory: 900Ki}}}]}",
	"{name: web, namespace: prod, labels: {app: web}}|{containers: [{name: c, image: 'nginx:2', resources: {limits: {memory: 128Mi}}}]}",
}

func putSorted(t *testing.T, d *e2e.Daemon) {
	t.Helper()
	d.Mkdir(t)
	for i, pod := range sortedPods {
		meta, spec, _ := strings.Cut(pod, "|")
		d.PutFile(t, fmt.Sprint("p", i), fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: %s\nspec: %s\n", meta, spec))
	}
}

// has waits until the daemon has all of these pods.
func has(t *testing.T, d *e2e.Daemon, pods int) {
	t.Helper()
	testutil.Eventually(t, func() error {
		status, err := d.Client.Status(t.Context())
		if err == nil && (!status.Ready || status.Pods != pods) {
			err = fmt.Errorf("ready %t, %d pods", status.Ready, status.Pods)
		}
		return err
	})
}

// get pods prints the same bytes as a real kubectl against the Kubernetes API of the daemon, on
// the socket and over TCP.
func TestGetPodsPrintsAsKubectl(t *testing.T) {
	testutil.Long(t)
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	putSorted(t, d)
	d = e2e.Start(t, d.Dir, "--node-ip", "192.0.2.1")
	has(t, d, len(sortedPods))
	proxy := run(t, exec.Command(e2e.Ctl, "proxy", "--socket", d.Socket, "--port", "0"))
	address := "http://" + strings.TrimPrefix(proxy.expect(t, "Starting to serve on 127.0.0.1:")[0], "Starting to serve on ")
	kubectl := e2e.Kubectl{Server: address}
	file := func(name, text string) string {
		path := filepath.Join(d.Dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := file("path", "{range .items[*]}{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}")
	for _, args := range [][]string{
		{"-A", "-o", "name"},
		{"-A", "-o", "json"},
		{"-A", "-o", "yaml"},
		{"-A", "-o", "kyaml"},
		{"-n", "kube-system", "-o", "json"},
		{"-n", "none", "-o", "json"},
		{"-n", "none", "-o", "yaml"},
		{"-n", "none", "-o", "name"},
		{"-n", "none"},
		{"-n", "prod", "web-node1", "-o", "json"},
		{"-n", "prod", "web-node1", "-o", "yaml"},
		{"-n", "prod", "web-node1", "-o", "kyaml"},
		{"-n", "default", "web-node1", "db-node1", "-o", "yaml"},
		{"-n", "prod", "web-node1", "-o", "name"},
		{"-n", "prod", "web-node1", "-o", "jsonpath={.metadata.uid}"},
		{"-A", "-l", "app=web", "-o", "name"},
		{"-A", "-l", "app in (web,db),tier!=front", "-o", "yaml"},
		{"-A", "-l", "!tier", "-o", "name"},
		{"-A", "--field-selector", "metadata.namespace=prod", "-o", "json"},
		{"-A", "--field-selector", "spec.hostNetwork=true,status.phase!=Running", "-o", "name"},
		{"-A", "--field-selector", "spec.restartPolicy!=Always", "-o", "name"},
		{"-A", "-o", "jsonpath={.items[*].spec.containers[*].image}"},
		{"-A", "-o", "jsonpath={range .items[?(@.spec.hostNetwork==true)]}{.metadata.name}{\"\\n\"}{end}"},
		{"-A", "-o", "jsonpath={.items[*].spec.nothing}"},
		{"-A", "-o", "jsonpath-as-json={.items[*].metadata.labels}"},
		{"-A", "-o", "jsonpath-file=" + path},
		{"none", "-n", "prod", "--ignore-not-found"},
	} {
		want := kubectl.Command(t, append([]string{"get", "pods"}, args...)...)
		wanted, err := want.Output()
		if err != nil {
			t.Errorf("kubectl get pods %q: %v", args, err)
		}
		for _, where := range [][]string{{"--socket", d.Socket}, {"--server", address}} {
			cmd := exec.Command(e2e.Ctl, append(append([]string{"get", "pods"}, args...), where...)...)
			if got, err := cmd.Output(); err != nil || !bytes.Equal(got, wanted) {
				t.Errorf("get pods %q: %v\n%s\nkubectl:\n%s", args, err, got, wanted)
			}
		}
	}
}

// The table of get pods begins with the columns of kubectl's.
func TestGetPodsHasTheColumnsOfKubectl(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	putSorted(t, d)
	d = e2e.Start(t, d.Dir, "--node-ip", "192.0.2.1")
	has(t, d, len(sortedPods))
	kubectl := d.Kubectl(t)
	ages := regexp.MustCompile(` \d+[sm](\d+s)?( |\n)`) // time passes between two commands
	// table returns the rows without spaces between the columns.
	table := func(out []byte, err error) []string {
		if err != nil {
			t.Fatal(err)
		}
		text := ages.ReplaceAllString(string(out), " AGE$2")
		return strings.Split(strings.TrimSpace(regexp.MustCompile(`  +`).ReplaceAllString(text, "|")), "\n")
	}
	for _, args := range []string{"-A", "-A -o wide", "-n prod", "-n prod -o wide", "-n prod --no-headers", "-n default web-node1"} {
		t.Run(args, func(t *testing.T) {
			fields := append([]string{"get", "pods"}, strings.Fields(args)...)
			got := table(exec.Command(e2e.Ctl, append(fields, "--socket", d.Socket)...).Output())
			want := table(kubectl.Command(t, fields...).Output())
			if len(got) != len(want) {
				t.Fatalf("%q, kubectl: %q", got, want)
			}
			for i := range want {
				if row := strings.TrimSuffix(want[i], "|"); !strings.HasPrefix(got[i], row+"|SOURCE") && !strings.HasPrefix(got[i], row+"|file") {
					t.Errorf("%q, kubectl: %q", got[i], want[i])
				}
			}
		})
	}
}

// get pods --watch prints the same lines as kubectl, and goes on after a restart of the daemon.
func TestGetPodsWatchesAsKubectl(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	putSorted(t, d)
	state := filepath.Join(d.Dir, "state")
	d = e2e.Start(t, d.Dir, "--state-dir", state, "--node-ip", "192.0.2.1")
	has(t, d, len(sortedPods))
	kubectl := d.Kubectl(t)
	type pair struct{ got, want *testutil.Buffer }
	var pairs []pair
	for _, args := range [][]string{
		{"-A", "-w", "-o", "name"},
		{"-A", "-w", "-o", "json"},
		{"-A", "-w", "-l", "app=web", "--output-watch-events", "-o", "yaml"},
		{"-A", "-w", "-l", "app=web", "--output-watch-events", "-o", "kyaml"},
		{"-n", "prod", "--watch-only", "--output-watch-events", "-o", "json"},
	} {
		p := pair{new(testutil.Buffer), new(testutil.Buffer)}
		pairs = append(pairs, p)
		for cmd, out := range map[*exec.Cmd]*testutil.Buffer{
			kubectl.Command(t, append([]string{"get", "pods"}, args...)...):                          p.want,
			exec.Command(e2e.Ctl, append([]string{"get", "pods", "--socket", d.Socket}, args...)...): p.got,
		} {
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Signal(os.Interrupt) // it may have ended
				_ = cmd.Wait()                       // with an error, if it is kubectl
			})
		}
	}
	subscribed := func(n int) {
		t.Helper()
		testutil.Eventually(t, func() error {
			status, err := d.Client.Status(t.Context())
			if err == nil && len(status.Subscribers) < n {
				err = fmt.Errorf("%d subscribers", len(status.Subscribers))
			}
			return err
		})
	}
	subscribed(2 * len(pairs))
	change := func(image string) {
		t.Helper()
		meta, spec, _ := strings.Cut(sortedPods[3], "|")
		d.PutFile(t, "p3", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: %s\nspec: %s\n", meta, strings.Replace(spec, "nginx", image, 1)))
	}
	change("httpd")
	testutil.Eventually(t, func() error {
		for i, p := range pairs {
			if got, want := p.got.String(), p.want.String(); got != want || strings.Count(got, "\n") < 2 {
				return fmt.Errorf("pair %d:\n%s\nkubectl:\n%s", i, got, want)
			}
		}
		return nil
	})

	// kubectl ends with the daemon. What changes meanwhile is printed once.
	_, _ = d.End(t, os.Kill)
	change("caddy")
	before := pairs[2].got.String()
	e2e.Start(t, d.Dir, "--state-dir", state)
	testutil.Eventually(t, func() error {
		after := strings.TrimPrefix(pairs[2].got.String(), before)
		if strings.Contains(after, "caddy") || strings.Contains(after, "web-node1") {
			return nil
		}
		return fmt.Errorf("after the restart: %s", after)
	})
}
