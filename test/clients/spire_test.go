package clients

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// spire is a node with a kubelet, podconfigd, and a server of SPIRE. Each agent of SPIRE is started in a test of its own.
type spire struct {
	*node
	kubelet *components.Kubelet
	runtime *components.Runtime
	// port is that of the server.
	port string
}

// workloadID is the identity of the workloads, and nodeID that of the agents.
const (
	workloadID = "spiffe://example.org/workload"
	nodeID     = "spiffe://example.org/node1"
)

// The configurations of SPIRE. What concerns podconfigd is in testdata.
const (
	serverConfig = `server {
    bind_address = "127.0.0.1"
    bind_port = %[2]q
    socket_path = "%[1]s/server.sock"
    trust_domain = "example.org"
    data_dir = "%[1]s/server"
    log_level = "WARN"
}
plugins {
    DataStore "sql" {
        plugin_data {
            database_type = "sqlite3"
            connection_string = "%[1]s/server/datastore.sqlite3"
        }
    }
    KeyManager "disk" {
        plugin_data {
            keys_path = "%[1]s/server/keys.json"
        }
    }
    NodeAttestor "join_token" {
        plugin_data {}
    }
}
`
	agentConfig = `agent {
    data_dir = %[3]q
    insecure_bootstrap = true
    log_level = "WARN"
    server_address = "127.0.0.1"
    server_port = %[2]q
    socket_path = "%[1]s/agent/agent.sock"
    trust_domain = "example.org"
}
plugins {
    NodeAttestor "join_token" {
        plugin_data {}
    }
    KeyManager "disk" {
        plugin_data {
            directory = %[3]q
        }
    }
%[4]s}
`
)

// startSPIRE starts everything except an agent.
func startSPIRE(t *testing.T) *spire {
	t.Helper()
	dir := testutil.ShortDir(t)
	for _, name := range []string{"manifests", "server", "agent"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &spire{
		node:    &node{dir: dir, socket: filepath.Join(dir, "s"), http: components.FreeAddress(t), log: new(testutil.Buffer)},
		runtime: components.StartRuntime(t, components.Containerd),
	}
	program, err := os.ReadFile(testutil.MustProgram(t, "test/clients", "./workload"))
	if err != nil {
		t.Fatal(err)
	}
	s.runtime.Load(t, workloadImage, components.ImageConfig{Entrypoint: []string{"/workload"}},
		components.ImageFile{Name: "workload", Mode: 0o755, Data: program})
	s.kubelet = components.StartKubelet(t, s.runtime, "node1", filepath.Join(dir, "manifests"))
	s.client = client.New(s.socket)
	s.args = []string{
		"--pod-manifest-path", filepath.Join(dir, "manifests"), "--socket", s.socket, "--listen", "http://" + s.http,
		"--hostname-override", "node1", "--container-runtime-endpoint", "unix://" + s.runtime.Socket,
	}
	s.start(t)
	t.Cleanup(func() {
		s.kill(t)
		if t.Failed() {
			t.Logf("podconfigd said:\n%s", s.log)
		}
	})
	s.startServer(t)
	return s
}

func (s *spire) startServer(t *testing.T) {
	t.Helper()
	_, s.port, _ = net.SplitHostPort(components.FreeAddress(t))
	s.serve(t, "spire-server", fmt.Sprintf(serverConfig, s.dir, s.port))
	testutil.Eventually(t, func() error {
		_, err := s.spireServer(t, "healthcheck")
		return err
	})
	if _, err := s.spireServer(t, "entry", "create", "-parentID", nodeID, "-spiffeID", workloadID,
		"-selector", "k8s:ns:default", "-selector", "k8s:pod-label:app:workload", "-selector", "k8s:container-name:main"); err != nil {
		t.Fatal(err)
	}
}

// startAgent starts an agent with a workload attestor, until the test ends.
func (s *spire) startAgent(t *testing.T, attestor string) *exec.Cmd {
	t.Helper()
	out, err := s.spireServer(t, "token", "generate", "-spiffeID", nodeID)
	token, found := strings.CutPrefix(strings.TrimSpace(out), "Token: ")
	if err != nil || !found {
		t.Fatalf("a join token: %v: %s", err, out)
	}
	agent := s.serve(t, "spire-agent", fmt.Sprintf(agentConfig, s.dir, s.port, t.TempDir(), attestor), "-joinToken", token)
	testutil.Eventually(t, func() error {
		out, err := exec.CommandContext(t.Context(), agent.Path, "healthcheck", "-socketPath", s.dir+"/agent/agent.sock").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	return agent
}

// serve runs a program of SPIRE until the test ends. The agent ends its plugins.
func (s *spire) serve(t *testing.T, name, config string, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(s.dir, name+".conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd, log := exec.CommandContext(ctx, installed(t, name), append([]string{"run", "-config", path}, args...)...), new(testutil.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Logf("%s said:\n%s", name, log)
		}
	})
	return cmd
}

// spireServer runs a command of spire-server.
func (s *spire) spireServer(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), installed(t, "spire-server"), append(args, "-socketPath", s.dir+"/server.sock")...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("spire-server %s: %w: %s", args, err, out)
	}
	return string(out), err
}
