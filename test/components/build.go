package components

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// folders are the folders of the servers, by name.
var folders sync.Map

// folder returns the folder of a server, and builds the server if necessary.
func folder(tb testing.TB, name string) string {
	tb.Helper()
	once, _ := folders.LoadOrStore(name, sync.OnceValues(func() (string, error) { return build(name) }))
	dir, err := once.(func() (string, error))() //nolint:errcheck // nothing else is stored
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func build(name string) (string, error) {
	root, err := testutil.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "hack", "components.sh"), name)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", name, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// Kubectl returns the path of kubectl.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(folder(tb, "kubectl"), "kubectl")
}

// Process is a server process.
type Process struct {
	name string
	args []string
	env  []string
	cmd  *exec.Cmd
	done chan struct{}
	log  *os.File
}

// start runs a server until the test ends, or until Kill.
func start(tb testing.TB, logs, name string, args ...string) *Process {
	tb.Helper()
	p := newProcess(tb, logs, name, args...)
	p.Start(tb)
	return p
}

// newProcess returns a server that is not started. It ends with the test.
func newProcess(tb testing.TB, logs, name string, args ...string) *Process {
	tb.Helper()
	log, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{name: filepath.Join(folder(tb, name), name), args: args, log: log}
	tb.Cleanup(func() {
		if p.done != nil {
			p.Signal(tb, syscall.SIGCONT)
			p.Kill(tb)
		}
		log.Close()
		if tb.Failed() {
			tb.Logf("the end of %s's log:\n%s", name, tail(log.Name(), 2<<10))
		}
	})
	return p
}

// Start starts the server again, in the same way.
func (p *Process) Start(tb testing.TB) {
	tb.Helper()
	p.cmd = exec.Command(p.name, p.args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = p.log, p.log, p.env
	// It ends with the test, also if the test is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // Pdeathsig refers to the thread
		started <- p.cmd.Start()
		_ = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		tb.Fatal(err)
	}
	p.done = done
}

// Kill ends the server like kill -9.
func (p *Process) Kill(tb testing.TB) {
	tb.Helper()
	p.Signal(tb, syscall.SIGKILL)
	p.Wait()
}

// Wait waits until the server has ended.
func (p *Process) Wait() { <-p.done }

// Pid returns the server's process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal, if the server runs.
func (p *Process) Signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(signal)
	}
}

// tail returns the end of a file.
func tail(path string, size int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Seek(-size, io.SeekEnd); err != nil {
		_, _ = f.Seek(0, io.SeekStart)
	}
	data, _ := io.ReadAll(f)
	return string(data)
}

// firstPort and ports are the ports that FreeAddress chooses from. They are below those that the kernel
// gives to clients: a client's connection may take such a port before the server listens on it.
const (
	firstPort = 10240
	ports     = 32768 - firstPort
)

// given has the addresses that this process gave.
var given sync.Map

// FreeAddress returns a loopback host and port on which nothing listens, another one at each call.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports))
		if _, taken := given.LoadOrStore(address, true); taken {
			continue
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
	tb.Fatal("no port is free")
	return ""
}

// await calls done until it returns no error.
func await(tb testing.TB, what string, done func() error) {
	tb.Helper()
	deadline := time.Now().Add(readyIn)
	for {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v: %v", what, readyIn, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
