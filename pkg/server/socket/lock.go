package socket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podconfigd/podconfigd/internal/lockfile"
)

const (
	// lockPatience is how long lockSocket waits for another daemon, which has the lock for
	// milliseconds. lockRetry is the interval between attempts.
	lockPatience = 5 * time.Second
	lockRetry    = 10 * time.Millisecond
	// formerPatience is how long lockFormer waits.
	formerPatience = 100 * time.Millisecond
)

// IsLock reports whether a file in the directory of a socket can be the lock of lockSocket.
func IsLock(name string) bool {
	return len(name) >= len(".x"+lockSuffix) && name[0] == '.' && filepath.Ext(name) == lockSuffix
}

const lockSuffix = ".lock"

// lockSocket prevents other daemons from creating the socket until unlock is called. The lock is a
// file beside the socket that no other user can open. unlock removes it.
func lockSocket(ctx context.Context, socket string) (unlock func(), err error) {
	dir, base := filepath.Split(socket)
	name := filepath.Join(dir, "."+base+lockSuffix)
	lock, err := patiently(ctx, lockPatience, func() (*os.File, error) {
		file, err := lockfile.Lock(name)
		if err != nil || isAt(file, name) {
			return file, err
		}
		_ = file.Close() // the daemon that had the lock has removed it
		return nil, lockfile.ErrLocked
	})
	if err != nil {
		return nil, err
	}
	former := lockFormer(ctx, filepath.Dir(socket))
	return func() {
		_ = os.Remove(name) // if it stays, the next daemon takes it
		_ = lock.Close()
		_ = former.Close() // nil if it could not be locked
	}, nil
}

func isAt(file *os.File, name string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(ours, there)
}

// lockFormer takes the lock of earlier versions too, so that an earlier version that starts at the same
// time waits. That lock is the directory. Every user who can open the directory can hold it. So lockFormer
// gives up after a short time, and returns nil.
func lockFormer(ctx context.Context, dir string) *os.File {
	file, err := os.Open(dir)
	if err != nil {
		return nil
	}
	locked, err := patiently(ctx, formerPatience, func() (*os.File, error) {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return nil, lockfile.ErrLocked
		}
		return file, nil
	})
	if err != nil {
		_ = file.Close() // nothing was written
	}
	return locked
}

// patiently calls lock until it returns another error than lockfile.ErrLocked.
func patiently(ctx context.Context, limit time.Duration, lock func() (*os.File, error)) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, lockfile.ErrLocked)
	defer cancel()
	for {
		file, err := lock()
		if !errors.Is(err, lockfile.ErrLocked) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the lock: %w", context.Cause(ctx))
		case <-time.After(lockRetry):
		}
	}
}
