package clients

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/components"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// process is a command that prints lines until it is stopped.
type process struct {
	cmd    *exec.Cmd
	lines  chan string
	stderr *testutil.Buffer
}

// run starts a command, which gets SIGINT at the end of the test at the latest.
func run(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, lines: make(chan string, 1000), stderr: new(testutil.Buffer)}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { _ = p.stop() })
	return p
}

// stop ends the command and its children.
func (p *process) stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
	for range p.lines {
		continue
	}
	return p.cmd.Wait()
}

// expect waits for a line that has these words.
func (p *process) expect(t *testing.T, words string) (before []string) {
	t.Helper()
	deadline := time.After(testutil.Patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("it ended before a line with %q, after %q; stderr: %s", words, before, p.stderr)
			}
			before = append(before, line)
			if strings.Contains(strings.Join(strings.Fields(line), " "), words) {
				return before
			}
		case <-deadline:
			t.Fatalf("no line with %q, but %q; stderr: %s", words, before, p.stderr)
		}
	}
}

// What podconfigctl proxy prints can be pasted into a terminal. It works with kubectl and curl,
// also after a restart of the daemon.
func TestProxy(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "nginx:1.27")
	d = e2e.Start(t, d.Dir)
	e2e.SyncUp(t, d.Watch(t, client.Options{}))
	bin := t.TempDir()
	if err := os.Symlink(components.Kubectl(t), filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=", "PATH="+bin+":"+os.Getenv("PATH"))
	shell := func(dir, script string) *exec.Cmd {
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}

	for _, kubeconfig := range []string{"", filepath.Join(t.TempDir(), "node1 .kubeconfig")} {
		proxy := run(t, exec.Command(e2e.Ctl, "proxy", "--socket", d.Socket, "--port", "0", "--kubeconfig-out", kubeconfig))
		address := strings.TrimPrefix(proxy.expect(t, "Starting to serve on 127.0.0.1:")[0], "Starting to serve on ")
		proxy.expect(t, "In another terminal:")
		dir := t.TempDir()
		pasted := run(t, shell(dir, strings.Join(proxy.expect(t, "get pods -A -w"), "\n")))
		pasted.expect(t, "default web-node1 0/1 Pending")
		stream := run(t, shell(dir, strings.Join(proxy.expect(t, "curl -N "), "\n")))
		stream.expect(t, `"initialSyncComplete":true`)
		name := "late" + fmt.Sprint(len(kubeconfig))
		d.Put(t, name, "i")
		pasted.expect(t, "default "+name+"-node1 0/1 Pending")
		stream.expect(t, `"name":"`+name+`-node1"`)

		_, _ = d.End(t, os.Kill)
		for range stream.lines { // curl fails, and does not wait for more
			continue
		}
		get := shell(dir, "kubectl get pods --server http://"+address)
		if out, err := get.CombinedOutput(); err == nil || !strings.Contains(string(out), "podconfigd is not running: the socket is from an earlier run") {
			t.Errorf("without a daemon: %v, %s", err, out)
		}
		if out, err := exec.Command(e2e.Ctl, "proxy", "--socket", d.Socket).CombinedOutput(); err == nil || !strings.Contains(string(out), "podconfigd is not running: the socket is from an earlier run") {
			t.Errorf("a proxy without a daemon: %v, %s", err, out)
		}
		d = e2e.Start(t, d.Dir)
		testutil.Eventually(t, func() error {
			if out, err := shell(dir, "kubectl get pods --server http://"+address).CombinedOutput(); err != nil || !strings.Contains(string(out), name) {
				return fmt.Errorf("after a restart: %w, %s", err, out)
			}
			return nil
		})
		c, err := client.NewForConfig(client.Config{Server: "http://" + address})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Resync(t.Context(), "default", "web-node1"); err == nil || !strings.Contains(err.Error(), "podconfigctl proxy only reads") {
			t.Errorf("Resync: %v", err)
		}
		watch := run(t, exec.Command(e2e.Ctl, "watch", "--server", "http://"+address))
		watch.expect(t, "ADD file default/"+name+"-node1")
		if err := proxy.stop(); err != nil {
			t.Errorf("the proxy ended with %v, %s", err, proxy.stderr)
		}
	}
}

// Client commands read a daemon over its loopback port, and resume across a restart of it.
func TestCommandsOverTCP(t *testing.T) {
	t.Parallel()
	d := &e2e.Daemon{Dir: testutil.ShortDir(t)}
	d.Mkdir(t)
	d.Put(t, "web", "nginx:1.27")
	d = e2e.Start(t, d.Dir, "--listen", "http://127.0.0.1:0", "--state-dir", filepath.Join(d.Dir, "state"))
	address := ""
	testutil.Eventually(t, func() error {
		_, after, _ := strings.Cut(d.Log.String(), `address="http://127.0.0.1:`)
		port, _, ok := strings.Cut(after, `"`)
		if !ok {
			return fmt.Errorf("the log is %s", d.Log)
		}
		address = "http://127.0.0.1:" + port
		return nil
	})
	d.AwaitFiles(t)
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	for args, want := range map[string]string{
		"status": "Node:      node1\n", "get pods": "default     web-node1", "history": "default/web-node1",
		"lookup 00000000-0000-0000-0000-000000000000": "no source has it",
		"resync default/web-node1":                    "this address is read-only",
	} {
		t.Run(args, func(t *testing.T) {
			cmd := exec.CommandContext(ctx, e2e.Ctl, strings.Fields(args)...)
			cmd.Env = append(os.Environ(), client.ServerEnv+"="+address, client.SocketEnv+"=/nowhere")
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
				t.Errorf("%s: %s; want %s", args, out, want)
			}
		})
	}
	watch := run(t, exec.Command(e2e.Ctl, "watch", "--server", address))
	watch.expect(t, "ADD file default/web-node1")
	watch.expect(t, "BOOKMARK")
	_, _ = d.End(t, os.Kill)
	d.Put(t, "late", "i")
	e2e.Start(t, d.Dir, "--listen", address, "--state-dir", filepath.Join(d.Dir, "state"))
	if got := watch.expect(t, "ADD file default/late-node1"); len(got) > 3 || strings.Contains(strings.Join(got, "\n"), "web-node1") {
		t.Errorf("it did not resume: %q", got)
	}
}
