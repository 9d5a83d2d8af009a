package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// kernelDir names the directory of a process that TestFaultsOfTheKernel starts.
const kernelDir = "PODCONFIGD_TEST_STORE_DIR"

// runKernelProcess is that process: it appends sets and prints how each was shown.
func runKernelProcess(dir string, out io.Writer) error {
	opts := options(OS)
	opts.Dir, opts.SegmentBytes, opts.MaxBytes = dir, 2<<10, 8<<10
	l, recovered, err := Open(opts)
	if err != nil {
		return err
	}
	m := newModel(11, recovered)
	fmt.Fprintln(out, "begin", recovered.Instance, recovered.Revision)
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	p := &process{log: l, stop: stop, done: make(chan error, 1)}
	go func() { p.done <- l.Run(ctx) }()
	for range 60 {
		c := p.append(m.set())
		fmt.Fprintln(out, "shown", c.Instance, m.revision, c.Stored)
		<-time.After(time.Millisecond)
	}
	<-time.After(2500 * time.Millisecond) // it heals where it can
	c := p.append(m.set())
	fmt.Fprintln(out, "shown", c.Instance, m.revision, c.Stored)
	p.end()
	return nil
}

// The kernel fails or kills at a system call. What was shown as stored comes back, under
// the instance that it was shown under.
func TestFaultsOfTheKernel(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	if testing.Short() {
		t.Skip("takes a while")
	}
	// strace counts for each thread.
	var cases []string
	for _, when := range []string{"1", "2", "3", "5", "8"} {
		cases = append(cases, "write:error=ENOSPC:when="+when+"+", "write:error=EIO:when="+when, "write:signal=KILL:when="+when)
	}
	for _, when := range []string{"1", "2", "3", "4"} {
		cases = append(cases, "fsync:error=EIO:when="+when, "fsync:signal=KILL:when="+when)
	}
	for _, when := range []string{"1", "2", "3"} {
		cases = append(cases, "openat:error=EMFILE:when="+when, "openat:signal=KILL:when="+when)
	}
	cases = append(cases, "mkdirat:error=EROFS", "flock:error=EIO", "getdents64:error=EIO", "unlinkat:error=EIO")
	for _, inject := range cases {
		t.Run(inject, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			trace := filepath.Join(t.TempDir(), "trace")
			p := exec.Command(strace, "-f", "-qq", "-o", trace, "-P", dir, "-P", filepath.Join(dir, lockName), "-e", "inject="+inject)
			for n := range 20 {
				p.Args = append(p.Args, "-P", filepath.Join(dir, segmentName(uint64(n+1))))
			}
			p.Args = append(p.Args, os.Args[0])
			p.Env = append(os.Environ(), kernelDir+"="+dir)
			out, err := p.Output()
			killed := strings.Contains(inject, "KILL")
			if err != nil && !killed {
				t.Fatalf("%v\n%s", err, out)
			}
			calls, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(calls), "INJECTED") && !strings.Contains(string(calls), "killed by SIGKILL") {
				t.Errorf("nothing was injected:\n%s", calls)
			}
			checkKernel(t, dir, string(out))
		})
	}
}

// checkKernel compares what a process has shown with what comes back.
func checkKernel(t *testing.T, dir, shown string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(shown))
	stored := make(map[string]int64) // by instance
	last := ""
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		revision, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if fields[0] == "begin" || fields[3] == "true" {
			last = fields[1]
			stored[last] = revision
		} else if _, was := stored[fields[1]]; was && fields[1] != last {
			t.Errorf("instance %s is back", fields[1])
		}
	}
	opts := options(OS)
	opts.Dir = dir
	p, again := start(t, opts)
	p.end()
	if again.Resumed && again.Revision < stored[again.Instance] {
		t.Errorf("resumed at %d, stored up to %d\n%s", again.Revision, stored[again.Instance], shown)
	}
	if len(stored) > 0 && !again.Resumed && stored[last] > 0 && strings.Contains(shown, "true") {
		t.Errorf("what was stored is not resumed: %s, %+v\n%s", again.Reason, again.Problems, shown)
	}
}
