package follow

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Single is the name of the file if the path is a file. No entry of a directory has this
// name.
const Single = "."

// Clean returns the path without trailing slashes, as the kubelet uses it for a pod's
// UID.
func Clean(path string) string {
	volume := filepath.VolumeName(path) // nothing, except on Windows
	if clean := strings.TrimRightFunc(path, func(r rune) bool { return r == '/' || r == filepath.Separator }); clean != volume {
		return clean
	}
	return volume + string(filepath.Separator)
}

// Join returns the path of a file below the manifest path, as used for its pod's UID.
func Join(path, name string) string {
	if name == Single {
		return path
	}
	return filepath.Join(path, name)
}

// List returns the names of the files at path: either the names in the directory that do
// not begin with a dot, in no order, or [Single].
func List(path string) (names []string, isDir bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, false, err
	case info.Mode().IsRegular():
		return []string{Single}, false, nil
	case !info.IsDir():
		return nil, false, fmt.Errorf("%s is neither a directory nor a regular file", path)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, false, err
	}
	for _, name := range entries {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, true, nil
}

// root is the state of the manifest path.
type root struct {
	isDir bool
	// real is the resolved path, without links. info is of the file or directory there;
	// nil for none.
	real string
	info os.FileInfo
	// hops are the directory entries that determine it.
	hops []hop
}

// concerns reports whether a change of the directory entry at path may change the
// manifest path.
func (r *root) concerns(path string) bool {
	for _, h := range r.hops {
		if h.path() == path {
			return true
		}
	}
	return false
}
