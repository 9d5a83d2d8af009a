package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/test/bench/internal/peer"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// patience is the longest wait. It does not limit what is measured, only how long a
// benchmark hangs.
const patience = testutil.Patience

// buildPodconfigd and the others return the programs' paths, and build them the first
// time. podconfigd is built in the same way as by "make build", from its own go.mod.
var (
	buildPodconfigd     = program(".", "./cmd/podconfigd")
	buildKubeletSource  = program("test/bench", "./kubelet-source")
	buildLineSubscriber = program("test/bench", "./line-subscriber")
	buildOwnerAgent     = program("test/bench", "./owner-agent")
	buildFleetAgents    = program("test/bench", "./fleet-agents")
)

func program(module, pkg string) func() (string, error) {
	return sync.OnceValues(func() (string, error) { return testutil.Program(module, pkg) })
}

// process is a running program.
type process struct {
	pid int
	// started is the time before it was started.
	started time.Duration
	// stop ends the process and waits for its end.
	stop func()
}

// start runs a command until it is stopped or the test ends. If the test fails, its
// standard error is shown.
func start(tb testing.TB, build func() (string, error), prepare func(*exec.Cmd), args ...string) *process {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	prepare(cmd)
	started := peer.Now()
	if err := cmd.Start(); err != nil {
		cancel()
		tb.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		cancel()
		err := cmd.Wait()
		if tb.Failed() {
			tb.Logf("%s ended: %v\n%s", filepath.Base(path), err, &stderr)
		}
	})
	tb.Cleanup(stop)
	return &process{pid: cmd.Process.Pid, started: started, stop: stop}
}

// cpu returns the processor time of the process, in user mode and in the kernel, in
// nanoseconds. The clock ticks of /proc/PID/stat are 10 ms.
func (p *process) cpu(tb testing.TB) time.Duration {
	tb.Helper()
	// The clock of another process: clock_getcpuclockid(3).
	const cpuclockSched = 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^p.pid<<3|cpuclockSched), &used); err != nil {
		tb.Fatalf("reading the processor time of process %d: %v", p.pid, err)
	}
	return time.Duration(used.Nano())
}

// memory returns a field of /proc/PID/status in bytes.
func (p *process) memory(tb testing.TB, field string) float64 {
	tb.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != field {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		if err != nil {
			tb.Fatalf("%s in /proc/%d/status: %v", field, p.pid, err)
		}
		return kib * 1024
	}
	tb.Fatalf("there is no %s in /proc/%d/status", field, p.pid)
	return 0
}

// pause waits while the measured processes run.
func pause(tb testing.TB, d time.Duration) {
	tb.Helper()
	select {
	case <-time.After(d):
	case <-tb.Context().Done():
		tb.Fatal(context.Cause(tb.Context()))
	}
}
