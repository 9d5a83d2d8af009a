//go:build linux

package testutil

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Still returns a context on a machine that stands still for a minute when something first waits for it. It is for tests in
// virtual time.
func Still(ctx context.Context) context.Context { return &still{Context: ctx} }

type still struct {
	context.Context
	once sync.Once
}

func (s *still) Done() <-chan struct{} {
	s.once.Do(func() { <-time.After(time.Minute) })
	return s.Context.Done()
}

// standstill waits until its parent has stopped, and makes it continue. It stops it for longer than the limits of a
// server that ends. It ends with its parent.
const standstill = `
while ! grep -q '^State:.T' /proc/$PPID/status; do
	[ -e /proc/$PPID ] && sleep 0.01 || exit
done
sleep 1.5
(eval "$1")
kill -CONT $PPID`

// StandStill returns a function that stops this process for more than a second, as a machine that stands still does.
// Meanwhile, a shell runs the script, with the files as its descriptors from 3 on. After the test, and when it is called
// again, the function does nothing.
func StandStill(tb testing.TB, script string, files ...*os.File) (begin func()) {
	tb.Helper()
	cmd := exec.CommandContext(context.Background(), "sh", "-c", standstill, "sh", script)
	cmd.ExtraFiles, cmd.Stderr = files, os.Stderr
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	var once sync.Once
	tb.Cleanup(func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		})
	})
	return func() {
		once.Do(func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // a process may always stop itself
			_ = cmd.Wait()                                 // the script may fail
		})
	}
}
