//go:build !unix

package store

import (
	"errors"
	"os"
)

// Without unix, a store can only be read.
const noBlock, noFollow = 0, 0

func isLinkOrSocket(error) bool { return false }

func lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
