package manifests

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// Reasons in addition to the reasons in packages manifest and sources.
const (
	reasonDirectory    = "IsDirectory"
	reasonNotRegular   = "NotRegular"
	reasonUnreadable   = "Unreadable"
	reasonDanglingLink = "DanglingLink"
	reasonCyclicLink   = "CyclicLink"
)

// fault is a reason, and the faults of a manifest. namespace and name are the name of its pod; empty
// if it is not known. lines are the lines around the first fault.
type fault struct {
	reason          string
	faults          []manifest.Fault
	namespace, name string
	lines           *v1alpha1.ManifestFault
	// foreign means that the file is not meant as a pod.
	foreign bool
}

func newFault(reason, message string) *fault {
	return &fault{reason: reason, faults: []manifest.Fault{{Message: message}}}
}

// faultOf returns the fault for an error, without the path, which the verdict has.
func faultOf(err error) *fault {
	if refused, ok := errors.AsType[*manifest.Error](err); ok {
		return &fault{reason: string(refused.Reason), faults: refused.Faults, namespace: refused.Namespace, name: refused.Name, foreign: refused.Foreign}
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return newFault(reasonCyclicLink, "its symbolic links form a cycle")
	case errors.Is(err, fs.ErrNotExist):
		return newFault(reasonDanglingLink, "a symbolic link to something that does not exist")
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return newFault(reasonUnreadable, "can't be read: "+err.Error())
}

// notRegular returns the fault for something that is not a regular file.
func notRegular(mode fs.FileMode) *fault {
	kind := "neither a file nor a link to one"
	switch {
	case mode.IsDir():
		return &fault{reason: reasonDirectory, faults: []manifest.Fault{{Message: "a directory: subdirectories are not read"}}, foreign: true}
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return &fault{reason: reasonNotRegular, faults: []manifest.Fault{{Message: kind + ": only regular files are read"}}, foreign: true}
}
