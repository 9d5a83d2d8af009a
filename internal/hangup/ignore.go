//go:build linux && (amd64 || arm64)

// Package hangup ignores SIGHUP from the initialization of the package on. Without that, the signal ends the
// process until main runs, and the packages before it take tens of milliseconds.
//
// The package is initialized before almost all others, because of its name and because it imports only
// syscall. Package os/signal comes late. Once it knows the signal, by Ignore or Notify, it decides.
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
