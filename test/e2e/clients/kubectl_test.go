package clients

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// fails returns the output of a command that must fail.
func fails(t *testing.T, k e2e.Kubectl, args ...string) string {
	t.Helper()
	out, err := k.Command(t, args...).CombinedOutput()
	if err == nil {
		t.Errorf("kubectl %s does not fail:\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// hasLines looks for lines in an output, ignoring the amount of space.
func hasLines(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		found := false
		for l := range strings.Lines(out) {
			found = found || strings.Join(strings.Fields(l), " ") == line
		}
		if !found {
			t.Errorf("there is no line %q in\n%s", line, out)
		}
	}
}

// TestKubectl runs a real kubectl against the daemon.
func TestKubectl(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "nginx:1.27")
	d.Put(t, "log", "fluent-bit")
	d = e2e.Start(t, d.Dir)
	kubectl := d.Kubectl(t)
	hasLines(t, kubectl.Run(t, "get", "pods", "-A", "-o", "wide"),
		"NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES")
	hasLines(t, kubectl.Run(t, "get", "pod", "web-node1", "-o", "yaml"),
		"kind: Pod", "name: web-node1", "nodeName: node1", "- image: nginx:1.27", "phase: Pending")
	hasLines(t, kubectl.Run(t, "describe", "pod", "web-node1"), "Name: web-node1", "Image: nginx:1.27", "Status: Pending", "Node: node1/")
	hasLines(t, kubectl.Run(t, "get", "po", "--field-selector", "metadata.name=log-node1", "-o", "name"), "pod/log-node1")
	hasLines(t, kubectl.Run(t, "get", "pods", "--chunk-size=1", "-o", "name"), "pod/log-node1", "pod/web-node1")
	hasLines(t, kubectl.Run(t, "get", "pods", "-l", "app=none"), "No resources found in default namespace.")
	hasLines(t, kubectl.Run(t, "wait", "--for=jsonpath={.status.phase}=Pending", "pod/web-node1", "--timeout=10s"), "pod/web-node1 condition met")
	for args, want := range map[string]string{
		"get pod nope":         `Error from server (NotFound): pods "nope" not found`,
		"delete pod web-node1": "Error from server (MethodNotAllowed): DELETE is not supported: podconfigd is read-only",
		"run x --image=i":      "POST is not supported: podconfigd is read-only",
	} {
		t.Run(args, func(t *testing.T) {
			if out := fails(t, kubectl, strings.Fields(args)...); !strings.Contains(out, want) {
				t.Errorf("kubectl %s: %s; want %s", args, out, want)
			}
		})
	}

	expect, end := watchTable(t, kubectl, 3, "get", "pods", "-A", "-w", "--output-watch-events", "-o", "wide")
	expect("ADDED default web-node1")
	d.Put(t, "late", "i")
	expect("ADDED default late-node1")
	d.Put(t, "late", "j") // another pod with the name
	expect("DELETED default late-node1")
	expect("ADDED default late-node1")
	end()
}

// watchTable runs a command that does not end. expect waits for a line that begins with those
// words, of the first columns.
func watchTable(t *testing.T, k e2e.Kubectl, columns int, args ...string) (expect func(want string), end func()) {
	t.Helper()
	watch := k.Command(t, args...)
	stdout, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			words := strings.Fields(scanner.Text())
			lines <- strings.Join(words[:min(columns, len(words))], " ")
		}
	}()
	end = sync.OnceFunc(func() {
		_ = watch.Process.Kill()
		for range lines {
			continue
		}
		_ = watch.Wait() // it was killed
	})
	t.Cleanup(end)
	return func(want string) {
		t.Helper()
		for {
			select {
			case line := <-lines:
				if line == want {
					return
				}
			case <-time.After(testutil.Patience):
				t.Fatalf("kubectl %s does not say %q", strings.Join(args, " "), want)
			}
		}
	}, end
}

// The creationTimestamp of a static pod is the time at which it was first seen. kubectl
// shows it and sorts by it.
func TestKubectlAges(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	put := func(name, image string) {
		t.Helper()
		d.PutFile(t, name, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, uid: uid-of-%[1]s}\nspec: {containers: [{name: c, image: %q}]}\n", name, image))
	}
	put("z", "i")
	d = e2e.Start(t, d.Dir)
	kubectl := d.Kubectl(t)
	created := func(name string) string {
		return kubectl.Run(t, "get", "pod", name+"-node1", "-o", "jsonpath={.metadata.creationTimestamp}")
	}
	first := created("z")
	since, err := time.Parse(time.RFC3339, first)
	if err != nil || time.Since(since) > testutil.Patience {
		t.Fatalf("z was created at %q: %v", first, err)
	}
	<-time.After(time.Until(since.Add(1100 * time.Millisecond))) // creationTimestamp is in seconds
	put("a", "i")
	put("z", "j")
	testutil.Eventually(t, func() error {
		if out := kubectl.Run(t, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}"); out != "i j" {
			return fmt.Errorf("images %q", out)
		}
		return nil
	})
	if after := created("z"); after != first {
		t.Errorf("an update of the pod moves its creation from %s to %s", first, after)
	}
	var names []string
	table := kubectl.Run(t, "get", "pods", "--sort-by=.metadata.creationTimestamp")
	for line := range strings.Lines(table) {
		row := strings.Fields(line)
		names = append(names, row[0])
		if age := row[len(row)-1]; row[0] != "NAME" && !strings.HasSuffix(age, "s") {
			t.Errorf("%s is of age %q", row[0], age)
		}
	}
	if !slices.Equal(names, []string{"NAME", "z-node1", "a-node1"}) {
		t.Errorf("sorted by creation:\n%s", table)
	}
	if out := kubectl.Run(t, "get", "pods", "-o", "custom-columns=C:.metadata.creationTimestamp", "--no-headers"); strings.Contains(out, "<none>") {
		t.Errorf("custom columns:\n%s", out)
	}
	pods, err := d.Client.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if !pods.Items[i].CreationTimestamp.IsZero() {
			t.Errorf("/pods has a creationTimestamp: %v", pods.Items[i].CreationTimestamp)
		}
	}
}
