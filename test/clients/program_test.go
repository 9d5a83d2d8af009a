package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// installed returns the path of a client that hack/clients.sh installs, and installs it if
// it is missing.
func installed(t *testing.T, name string) string {
	t.Helper()
	root, err := testutil.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "hack", "clients.sh"), name)
	cmd.Stderr = os.Stderr // it says what it installs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("installing %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// program is a running client.
type program struct {
	mu   sync.Mutex
	last string
}

// run runs a client until the test ends. each gets its lines.
func run(t *testing.T, cmd *exec.Cmd, each func(line string)) {
	t.Helper()
	log := new(testutil.Buffer)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewReader(stdout); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			each(line)
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), log)
		}
	})
}

// lastLine runs a program that prints all pods after each change, as a JSON list of seen.
func lastLine(t *testing.T, cmd *exec.Cmd) view {
	t.Helper()
	p := new(program)
	run(t, cmd, func(line string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = line
	})
	return view{want: seenPods, got: func(context.Context) ([]string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last == "" {
			return nil, errors.New("the client has printed nothing")
		}
		var pods []seen
		if err := json.Unmarshal([]byte(p.last), &pods); err != nil {
			return nil, fmt.Errorf("%w: %s", err, p.last)
		}
		lines := make([]string, len(pods))
		for i := range pods {
			lines[i] = line(pods[i])
		}
		return lines, nil
	}}
}

// python runs the client of Debian's python3-kubernetes.
func python(t *testing.T, n *node) view {
	t.Helper()
	n.kubeconfig(t)
	return lastLine(t, exec.CommandContext(context.Background(), installed(t, "python"), n.config(t, "informer.py")))
}

// nodeJS runs the informer of @kubernetes/client-node. Without https, it takes the kubeconfig of podconfigctl proxy.
func nodeJS(t *testing.T, n *node) view {
	t.Helper()
	if n.durable {
		n.kubeconfig(t, "tokenFile:", "token-file:") // its own name of the field
	} else {
		n.proxy(t)
	}
	// Node.js looks for packages beside the script.
	modules := installed(t, "node")
	if err := os.Symlink(modules, filepath.Join(n.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return lastLine(t, exec.CommandContext(context.Background(), "node", n.config(t, "informer.mjs")))
}

// proxy runs podconfigctl proxy until the test ends. It writes the kubeconfig before it prints its address.
func (n *node) proxy(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error { return n.client.Ping(t.Context()) })
	serving := make(chan struct{})
	run(t, exec.CommandContext(context.Background(), ctl, "proxy",
		"--socket", n.socket, "--port", "0", "--kubeconfig-out", filepath.Join(n.dir, "kubeconfig")),
		func(line string) {
			if strings.HasPrefix(line, "Starting to serve") {
				close(serving)
			}
		})
	select {
	case <-serving:
	case <-time.After(testutil.Patience):
		t.Fatal("podconfigctl proxy does not serve")
	}
}
