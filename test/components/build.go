package components

import (
	"bytes"
	"fmt"
	"io"
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
)

// build returns the folder with the servers, built if need be.
var build = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command(filepath.Join(filepath.Dir(here), "..", "..", "hack", "components.sh"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building the servers: %w", err)
	}
	return strings.TrimSpace(out.String()), nil
})

// Kubectl returns the path of kubectl.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	bin, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(bin, "kubectl")
}

// Process is a server that runs.
type Process struct {
	name string
	args []string
	cmd  *exec.Cmd
	done chan struct{}
	log  *os.File
}

// start runs a server until the test ends, or Kill.
func start(tb testing.TB, logs, name string, args ...string) *Process {
	tb.Helper()
	bin, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{name: filepath.Join(bin, name), args: args, log: log}
	p.Start(tb)
	tb.Cleanup(func() {
		p.Signal(tb, syscall.SIGCONT)
		p.Kill(tb)
		log.Close()
		if tb.Failed() {
			tb.Logf("the end of %s's log:\n%s", name, tail(log.Name(), 2<<10))
		}
	})
	return p
}

// Start starts the server again, as it was started first.
func (p *Process) Start(tb testing.TB) {
	tb.Helper()
	p.cmd = exec.Command(p.name, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	// It goes with the test, also when that is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // Pdeathsig is of the thread
		started <- p.cmd.Start()
		_ = p.cmd.Wait()
	}()
	if err := <-started; err != nil {
		tb.Fatal(err)
	}
	p.done = done
}

// Kill ends the server as kill -9 does.
func (p *Process) Kill(tb testing.TB) {
	tb.Helper()
	p.Signal(tb, syscall.SIGKILL)
	<-p.done
}

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

// FreeAddress returns a host and port on loopback that nobody listens on.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return freeAddresses(tb, 1)[0]
}

// freeAddresses returns such addresses that are not the same.
func freeAddresses(tb testing.TB, n int) []string {
	tb.Helper()
	addresses := make([]string, n)
	listeners := make([]net.Listener, n)
	for i := range addresses {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			tb.Fatal(err)
		}
		addresses[i] = listeners[i].Addr().String()
	}
	for _, listener := range listeners {
		listener.Close()
	}
	return addresses
}

// await calls done until it has no error.
func await(tb testing.TB, what string, within time.Duration, done func() error) {
	tb.Helper()
	deadline := time.Now().Add(within)
	for {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v: %v", what, within, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
