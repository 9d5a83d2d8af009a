package socket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podconfigd/podconfigd/internal/await"
	"github.com/podconfigd/podconfigd/internal/lockfile"
)

const (
	// lockAttempts is how often lockSocket tries to get the lock, which another daemon has for
	// milliseconds. lockRetry is the interval between attempts.
	lockAttempts = 500
	lockRetry    = 10 * time.Millisecond
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
	for attempt := 1; ; attempt++ {
		lock, err := lockfile.Lock(name)
		switch {
		case err == nil && isAt(lock, name):
			return func() {
				_ = os.Remove(name) // if it stays, the next daemon takes it
				_ = lock.Close()
			}, nil
		case err == nil:
			_ = lock.Close() // the daemon that had the lock has removed it
		case !errors.Is(err, lockfile.ErrLocked):
			return nil, err
		}
		err = lockfile.ErrLocked
		if attempt < lockAttempts {
			err = await.For(ctx, lockRetry)
		}
		if err != nil {
			return nil, fmt.Errorf("waiting for the lock: %w", err)
		}
	}
}

func isAt(file *os.File, name string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(ours, there)
}
