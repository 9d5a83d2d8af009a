package script

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The daemon treats an open file as incomplete for this time after each write, and at
// most for this total time.
const (
	writerWindow = time.Second
	writerLimit  = 2 * time.Second
)

// cmdPromptly runs a program while the daemon is stopped.
func (sc *scenario) cmdPromptly(in *invocation) error {
	if in.neg || len(in.args) == 0 || sc.daemon == nil {
		return errUsage
	}
	daemon := sc.daemon.cmd.Process
	if err := daemon.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	stopped := func() error { return unix.Waitid(unix.P_PID, daemon.Pid, nil, unix.WSTOPPED, nil) }
	err := stopped()
	for errors.Is(err, unix.EINTR) {
		err = stopped()
	}
	if err != nil {
		return fmt.Errorf("waiting until the daemon has stopped: %w", err)
	}
	return errors.Join(in.ts.Exec(in.args[0], in.args[1:]...), daemon.Signal(syscall.SIGCONT))
}

// cmdWriteSlowly writes a file in pieces and keeps it open between them.
func (sc *scenario) cmdWriteSlowly(in *invocation) error {
	if in.neg || len(in.args) != 3 {
		return errUsage
	}
	data := []byte(in.ts.ReadFile(in.args[0]))
	pieces, err := strconv.Atoi(in.args[2])
	if err != nil || pieces < 2 || pieces > len(data) {
		return errUsage
	}
	f, err := os.OpenFile(in.ts.MkAbs(in.args[1]), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	began, written := time.Now(), time.Now()
	for i := range pieces {
		if i > 0 {
			// When the barrier's pod is there, the daemon has looked at the file.
			if err := sc.putBarrier(); err != nil {
				return err
			}
		}
		if _, err := f.Write(data[i*len(data)/pieces : (i+1)*len(data)/pieces]); err != nil {
			return err
		}
		if time.Since(written) > writerWindow {
			sc.tooSlow(f)
		}
		written = time.Now()
	}
	if err := f.Close(); err != nil {
		return err
	}
	if time.Since(written) > writerWindow || time.Since(began) > writerLimit {
		sc.tooSlow(f)
	}
	return sc.removeBarrier()
}

// tooSlow skips the script if the daemon may have read a part of the file, correctly.
func (sc *scenario) tooSlow(f *os.File) {
	sc.tb.Helper()
	f.Close()
	sc.tb.Skip("this machine is too busy to write as slowly as this and no slower")
}

// cmdExchange swaps two files in one step.
func (*scenario) cmdExchange(in *invocation) error {
	if in.neg || len(in.args) != 2 {
		return errUsage
	}
	return unix.Renameat2(unix.AT_FDCWD, in.ts.MkAbs(in.args[0]), unix.AT_FDCWD, in.ts.MkAbs(in.args[1]), unix.RENAME_EXCHANGE)
}

// cmdMksock makes a socket on which nothing listens.
func (*scenario) cmdMksock(in *invocation) error {
	if in.neg || len(in.args) != 1 {
		return errUsage
	}
	// The path of a socket must be short when the socket is made, but not later.
	dir, err := os.MkdirTemp("", "pcd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	short := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return errors.Join(l.Close(), os.Rename(short, in.ts.MkAbs(in.args[0])))
}
