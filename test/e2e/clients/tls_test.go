package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Client commands and the Go client read a daemon over https, with tokens and certificates
// that change, and podconfigctl proxy does so for kubectl.
func TestCommandsOverHTTPS(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "nginx:1.27")
	ca, other := components.NewAuthority(t, "ca"), components.NewAuthority(t, "other")
	file := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(d.Dir, name)
		temp := path + ".new"
		if err := os.WriteFile(temp, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temp, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	serverCert, serverKey := ca.Issue(t, "podconfigd")
	cert, key := ca.Issue(t, "alice")
	eveCert, eveKey := other.Issue(t, "eve")
	caFile, tokenFile := file("ca", ca.PEM), file("token", []byte("t1\n"))
	certFlags := []string{"--client-certificate", file("alice.crt", cert), "--client-key", file("alice.key", key)}
	eveFlags := []string{"--client-certificate", file("eve.crt", eveCert), "--client-key", file("eve.key", eveKey)}
	args := []string{
		"--listen", "https://127.0.0.1:0", "--state-dir", filepath.Join(d.Dir, "state"), "--authorization-mode", "AlwaysAllow",
		"--tls-cert-file", file("tls.crt", serverCert), "--tls-private-key-file", file("tls.key", serverKey),
		"--client-ca-file", caFile, "--token-auth-file", file("tokens", []byte("t1,bob,1\n")),
	}
	d = e2e.Start(t, d.Dir, args...)
	address := tlsAddress(t, d)
	d.AwaitFiles(t)
	command := func(args ...string) *exec.Cmd {
		if !slices.Contains(args, "--certificate-authority") && !slices.Contains(args, "--server") {
			args = append(args, "--certificate-authority", caFile)
		}
		cmd := exec.CommandContext(t.Context(), e2e.Ctl, args...)
		cmd.Env = append(os.Environ(), client.ServerEnv+"="+address, client.SocketEnv+"=/nowhere")
		return cmd
	}
	check := func(want string, args ...string) {
		t.Helper()
		if out, _ := command(args...).CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: %s; want %s", args, out, want)
		}
	}
	for _, flags := range [][]string{certFlags, {"--token-file", tokenFile}, {"--token", "t1"}} {
		for _, test := range []struct{ args, want string }{
			{"status", "Node:      node1\n"}, {"get pods", "default     web-node1"}, {"history", "default/web-node1"},
			{"lookup 00000000-0000-0000-0000-000000000000", "no source has it"}, {"resync default/none", `pod "default/none" not found`},
		} {
			check(test.want, append(strings.Fields(test.args), flags...)...)
		}
	}
	check("/v1alpha1/status: Unauthorized: set --token-file, or --client-certificate and --client-key", "status")
	check("/v1alpha1/status: Unauthorized: the token is not accepted: is it expired?", "status", "--token", "t2")
	check("the client certificate "+filepath.Join(d.Dir, "eve.crt")+" is not accepted: is it from a CA in --client-ca-file of podconfigd?", append(eveFlags, "status")...)
	check("set --certificate-authority to the CA of the server", "status", "--certificate-authority", file("other", other.PEM))
	check("set --tls-server-name, for example to localhost, if this is the server", "status", "--tls-server-name", "node1")
	check("Node:      node1\n", "status", "--tls-server-name", "localhost", "--token", "t1")
	check("use https:// in the address", "status", "--server", strings.Replace(address, "https", "http", 1))

	// The stream resumes across a restart of the daemon and a change of the token.
	watch := run(t, command("watch", "--token-file", tokenFile))
	watch.expect(t, "ADD file default/web-node1")
	watch.expect(t, "BOOKMARK")
	if subs, err := d.Client.Status(t.Context()); err != nil || len(subs.Subscribers) != 1 {
		t.Errorf("subscribers: %+v, %v", subs, err)
	}
	_, _ = d.End(t, os.Kill)
	file("tokens", []byte("t2,bob,1\n"))
	d.Put(t, "late", "i")
	args[1] = address
	d = e2e.Start(t, d.Dir, args...)
	testutil.Eventually(t, func() error {
		if strings.Contains(watch.stderr.String(), "Unauthorized") {
			return nil
		}
		return os.ErrNotExist
	})
	file("token", []byte("t2\n"))
	if got := watch.expect(t, "ADD file default/late-node1"); len(got) > 3 || strings.Contains(strings.Join(got, "\n"), "web-node1") {
		t.Errorf("it did not resume: %q", got)
	}

	proxy := run(t, command("proxy", "--port", "0", "--token-file", tokenFile))
	port := strings.TrimPrefix(proxy.expect(t, "Starting to serve on 127.0.0.1:")[0], "Starting to serve on ")
	k := e2e.Kubectl{Server: "http://" + port}
	hasLines(t, k.Run(t, "get", "pods", "-A", "--no-headers", "-o", "name"), "pod/late-node1", "pod/web-node1")
	if out, err := command("proxy", "--port", "0", "--token", "t1").CombinedOutput(); err == nil || !strings.Contains(string(out), "the token is not accepted") {
		t.Errorf("a proxy with an old token: %v, %s", err, out)
	}
}

// tls returns the https address of the daemon.
func tlsAddress(t *testing.T, d *e2e.Daemon) (address string) {
	t.Helper()
	deadline := time.After(testutil.Patience)
	for {
		if _, after, ok := strings.Cut(d.Log.String(), `address="https://`); ok {
			if port, _, ok := strings.Cut(after, `"`); ok {
				return "https://" + port
			}
		}
		select {
		case <-deadline:
			t.Fatalf("no https address in the log: %s", d.Log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
