package manifests

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Reasons beside those of packages manifest and sources.
const (
	reasonDirectory    = "IsDirectory"
	reasonNotRegular   = "NotRegular"
	reasonUnreadable   = "Unreadable"
	reasonDanglingLink = "DanglingLink"
	reasonCyclicLink   = "CyclicLink"
)

// fault is a reason and a sentence on what is wrong with a manifest.
type fault struct{ reason, message string }

// faultOf words the error of looking at a manifest, without the path in it: the
// verdict has that.
func faultOf(err error) *fault {
	var refused *manifest.Error
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &refused):
		return &fault{string(refused.Reason), sources.ShortText(refused.Error())}
	case errors.Is(err, syscall.ELOOP):
		return &fault{reasonCyclicLink, "its symbolic links lead in a circle"}
	case errors.Is(err, fs.ErrNotExist):
		return &fault{reasonDanglingLink, "it is a symbolic link to something that does not exist"}
	case errors.As(err, &pathErr):
		return &fault{reasonUnreadable, "it can't be read: " + pathErr.Err.Error()}
	}
	return &fault{reasonUnreadable, "it can't be read: " + err.Error()}
}

// notRegular words what a file is that is no manifest.
func notRegular(mode fs.FileMode) *fault {
	kind := "neither a file nor a link to one"
	switch {
	case mode.IsDir():
		return &fault{reasonDirectory, "it is a directory; subdirectories are not read"}
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return &fault{reasonNotRegular, "it is " + kind + "; only regular files are read"}
}
