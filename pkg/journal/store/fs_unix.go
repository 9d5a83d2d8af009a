//go:build unix

package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

// noBlock and noFollow make opening a FIFO return at once, and opening a link an error.
const (
	noBlock  = unix.O_NONBLOCK
	noFollow = unix.O_NOFOLLOW
)

func isLinkOrSocket(err error) bool { return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) }
