//go:build linux && (amd64 || arm64)

// Package hangup makes a program ignore SIGHUP from the start: import it for its effect.
//
// Without it, the signal ends a process whose packages are still being initialized, which takes tens of milliseconds. Go
// initializes hangup before almost all other packages, because of its name and because it imports only syscall. The effect
// ends when the program calls Ignore or Notify of os/signal for SIGHUP.
package hangup

import (
	"syscall"
	"unsafe"
)

// sigaction is the argument of rt_sigaction(2) of the kernel.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const ignore = 1 // SIG_IGN

// Ignored is false if the signal could not be ignored.
var Ignored = set()

func set() bool {
	action := sigaction{handler: ignore}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGHUP), uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0)
	return errno == 0
}
