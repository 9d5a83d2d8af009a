package store

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// kernelDir names the directory of a process that straceProcess starts.
const kernelDir = "PODCONFIGD_TEST_STORE_DIR"

// kernelOptions have small segments. A start reads only the last one, so that damage in an
// earlier one is found later.
func kernelOptions(dir string, fs FS) Options {
	opts := options(fs)
	opts.Dir, opts.SegmentBytes, opts.MaxBytes, opts.ReplayBytes = dir, 2<<10, 13<<10, 1
	return opts
}

// TestProcessUnderStrace is that process: it appends sets and prints how each was shown. In
// virtual time, it waits for nothing but system calls.
func TestProcessUnderStrace(t *testing.T) {
	dir := os.Getenv(kernelDir)
	if dir == "" {
		t.Skip("other tests start it")
	}
	synctest.Test(t, func(t *testing.T) {
		fs := newOneThread()
		defer fs.end()
		p, recovered := start(t, kernelOptions(dir, fs))
		m := newModel(11, recovered)
		fmt.Fprintln(os.Stdout, "begin", recovered.Instance, recovered.Revision, recovered.Resumed)
		<-time.After(6 * syncEvery) // it verifies the segments that it did not read
		for range 30 {
			c := p.append(m.set())
			fmt.Fprintln(os.Stdout, "shown", c.Instance, m.revision, c.Stored)
			synctest.Wait() // a new segment is begun now
		}
		<-time.After(2500 * time.Millisecond) // it heals where it can
		c := p.append(m.set())
		fmt.Fprintln(os.Stdout, "shown", c.Instance, m.revision, c.Stored)
		p.end()
	})
}

// straceProcess runs the process in a directory. It returns what the process printed and the
// system calls for the directory, and whether the process was killed.
func straceProcess(t *testing.T, dir, inject string) (shown, calls string, killed bool) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	p := exec.Command(strace, "-f", "-qq", "-o", trace, "-P", dir, "-P", filepath.Join(dir, lockName))
	for n := range 60 {
		p.Args = append(p.Args, "-P", filepath.Join(dir, segmentName(uint64(n+1))))
	}
	if inject != "" {
		p.Args = append(p.Args, "-e", "inject="+inject)
	}
	p.Args = append(p.Args, os.Args[0], "-test.run", "^TestProcessUnderStrace$")
	p.Env = append(os.Environ(), kernelDir+"="+dir)
	out, err := p.Output()
	data, readErr := os.ReadFile(trace)
	if readErr != nil {
		t.Fatal(readErr)
	}
	killed = strings.Contains(string(data), "killed by SIGKILL")
	if err != nil && !killed {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out), string(data), killed
}

// The kernel fails at a system call. What was shown as stored comes back, under the instance
// that it was shown under.
func TestFaultsOfTheKernel(t *testing.T) {
	testutil.Exhaustive(t)
	if testing.Short() {
		t.Skip("takes a while")
	}
	var cases []string
	for _, when := range []string{"1", "2", "3", "5", "8", "13"} {
		cases = append(cases, "write:error=ENOSPC:when="+when+"+", "write:error=EIO:when="+when, "fsync:error=EIO:when="+when)
	}
	for _, when := range []string{"1", "2", "3"} {
		cases = append(cases, "openat:error=EMFILE:when="+when)
	}
	cases = append(cases, "mkdirat:error=EROFS", "flock:error=EIO", "getdents64:error=EIO", "unlinkat:error=EIO")
	for _, inject := range cases {
		t.Run(inject, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			shown, calls, _ := straceProcess(t, dir, inject)
			if !strings.Contains(calls, "INJECTED") {
				t.Errorf("nothing was injected:\n%s", calls)
			}
			checkKernel(t, dir, shown)
		})
	}
}

// A process is killed at each of its system calls for the directory: in an empty directory,
// and after an earlier process, with an old segment that is damaged.
func TestKilledAtEachSystemCall(t *testing.T) {
	testutil.Exhaustive(t)
	if testing.Short() {
		t.Skip("takes a while")
	}
	for name, prepare := range map[string]func(t *testing.T) string{"first start": nothing, "next start": earlier} {
		t.Run(name, func(t *testing.T) {
			_, calls, _ := straceProcess(t, prepare(t), "")
			counts := make(map[string]int)
			for _, call := range regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(calls, -1) {
				counts[call[1]]++
			}
			delete(counts, "fcntl") // they come after an open, and change nothing
			delete(counts, "epoll_ctl")
			t.Logf("%v", counts)
			want := []string{"openat", "flock", "getdents64", "write", "fsync", "close", "unlinkat"}
			if name == "next start" {
				want = append(want, "read", "renameat")
			} else {
				want = append(want, "mkdirat")
			}
			for _, call := range want {
				if counts[call] == 0 {
					t.Errorf("no call of %s", call)
				}
			}
			for _, call := range slices.Sorted(maps.Keys(counts)) {
				for n := 1; n <= counts[call]; n++ {
					t.Run(fmt.Sprint(call, " ", n), func(t *testing.T) {
						t.Parallel()
						dir := prepare(t)
						shown, calls, killed := straceProcess(t, dir, fmt.Sprintf("%s:signal=KILL:when=%d", call, n))
						if !killed && n < counts[call]-2 {
							t.Errorf("it was not killed:\n%s", calls)
						}
						checkKernel(t, dir, shown)
					})
				}
			}
		})
	}
}

// nothing returns a directory that does not exist.
func nothing(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state")
}

// earlier returns a directory with the segments of a process that was killed. One that the
// next start does not read is damaged.
func earlier(t *testing.T) string {
	t.Helper()
	files := newMemFS()
	synctest.Test(t, func(t *testing.T) {
		p, recovered := start(t, kernelOptions("/state", files))
		m := newModel(12, recovered)
		for range 30 {
			p.append(m.set())
			synctest.Wait()
		}
		left := files.clone()
		p.end()
		files = left
	})
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	names := segmentsOf(files)
	for i, name := range names {
		data := *files.files[name]
		if i == len(names)-2 {
			data[len(data)/2]++
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkKernel compares what a process has shown with what comes back.
func checkKernel(t *testing.T, dir, shown string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(shown))
	stored := make(map[string]int64) // by instance
	last, begun, highest := "", false, int64(0)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 || fields[0] != "begin" && fields[0] != "shown" {
			continue
		}
		revision, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		highest = revision
		if begun = begun || fields[3] == "true"; fields[0] == "begin" || fields[3] == "true" {
			last = fields[1]
			stored[last] = revision
		} else if _, was := stored[fields[1]]; was && fields[1] != last {
			t.Errorf("instance %s is back", fields[1])
		}
	}
	p, again := start(t, kernelOptions(dir, OS))
	p.end()
	switch {
	case again.Resumed && again.Revision < stored[again.Instance]:
		t.Errorf("resumed at %d, stored up to %d\n%s", again.Revision, stored[again.Instance], shown)
	case begun && (!again.Resumed || again.Instance != last):
		t.Errorf("what was stored is not resumed: %s, %+v\n%s", again.Reason, again.Problems, shown)
	case again.Reserved < highest:
		t.Errorf("revisions are given again from %d on, and were given up to %d", again.Reserved, highest)
	}
}
