package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may lead over; Linux has the same.
const maxLinks = 40

// hop is a directory entry that decides where a path leads. Its directory is free
// of links, so one directory has one name however it is reached.
type hop struct{ dir, base string }

func (h hop) path() string { return filepath.Join(h.dir, h.base) }

// resolve follows path and returns the entries on the way that are links, and the
// one where it ends or is missing; and the path where it ends, free of links.
func resolve(path string) (hops []hop, real string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	at := string(filepath.Separator)
	rest := split(abs)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return append(hops, hop{at, name}), next, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		hops = append(hops, hop{at, name})
		if links++; links > maxLinks {
			return hops, next, &fs.PathError{Op: "resolve", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return hops, next, err
		}
		if filepath.IsAbs(target) {
			at = string(filepath.Separator)
		}
		rest = append(split(target), rest...)
	}
	return append(hops, hop{filepath.Dir(at), filepath.Base(at)}), at, nil
}

// split returns the names in a path, without empty ones and dots.
func split(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
