package file

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// State says what became of a manifest.
type State string

// The states of a manifest.
const (
	// Accepted: its pod is in the set.
	Accepted State = "Accepted"
	// Rejected: it can't be used and never gave a pod.
	Rejected State = "Rejected"
	// Held: it can't be used now; the pod that it gave before is in the set.
	Held State = "Held"
	// Shadowed: it is good, but its pod's name or UID belongs to another file.
	Shadowed State = "Shadowed"
)

// Reasons beside those of package manifest.
const (
	reasonDirectory    = "IsDirectory"
	reasonNotRegular   = "NotRegular"
	reasonUnreadable   = "Unreadable"
	reasonDanglingLink = "DanglingLink"
	reasonCyclicLink   = "CyclicLink"
	reasonDuplicate    = "Duplicate"
)

// Verdict is what the source has to say of one manifest.
type Verdict struct {
	// Path is the manifest's path, as its pod's UID has it.
	Path string `json:"path"`
	// State is what became of it.
	State State `json:"state"`
	// Namespace, Name and UID are those of the pod that it gives or gave last.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Reason is one word and Message a sentence on why it was not accepted.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Warnings are what the kubelet would pass over in silence.
	Warnings []string `json:"warnings,omitempty"`
}

// fault is a reason and a sentence on what is wrong with a manifest.
type fault struct{ reason, message string }

// faultOf words the error of looking at a manifest, without the path in it: the
// verdict has that.
func faultOf(err error) *fault {
	var refused *manifest.Error
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &refused):
		return &fault{string(refused.Reason), refused.Error()}
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
