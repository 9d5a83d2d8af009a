//go:build !unix

package smallfile

import (
	"errors"
	"os"
)

// Lock is not supported.
func Lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
