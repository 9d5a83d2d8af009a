package script

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// writerWindow is for how long after a write the daemon takes a file to be half
// written while it is open.
const writerWindow = time.Second

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
	written := time.Now()
	for i := range pieces {
		if _, err := f.Write(data[i*len(data)/pieces : (i+1)*len(data)/pieces]); err != nil {
			return err
		}
		if pause := time.Since(written); pause > writerWindow {
			return fmt.Errorf("this machine stood still for %v: the daemon may have taken the writer to be done", pause)
		}
		written = time.Now()
		// By the time the barrier's pod is there, the daemon has looked at the file.
		if err := sc.putBarrier(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return sc.removeBarrier()
}

// cmdMksock makes a socket that nobody listens on.
func (*scenario) cmdMksock(in *invocation) error {
	if in.neg || len(in.args) != 1 {
		return errUsage
	}
	// The path of a socket must be short when it is made, not afterwards.
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
