package follow

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is the maximum number of symbolic links in a path, as in Linux.
const maxLinks = 40

// hop is a directory entry on the way of a path. Its directory has no links in its path,
// so each directory has one name.
type hop struct{ dir, base string }

func (h hop) path() string { return filepath.Join(h.dir, h.base) }

// resolve follows path. It returns the entries on the way that are links, the entry where
// the path ends or is missing, and the real path without links.
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

// links are the files in the directory that are symbolic links.
type links struct {
	// hops has the directory entries that determine the target of a file's links.
	hops map[string][]hop
	// dependents has the files that depend on a directory entry, by its path.
	dependents map[string][]string
}

// update resolves the file. It reports whether the result has changed.
func (l *links) update(name, path string) (changed bool) {
	var hops []hop
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		hops, _, _ = resolve(path) // reading the file gives the error
	}
	if slices.Equal(l.hops[name], hops) {
		return false
	}
	if hops == nil {
		delete(l.hops, name)
		return true
	}
	if l.hops == nil {
		l.hops = make(map[string][]hop)
	}
	l.hops[name] = hops
	return true
}

// retain forgets all other files. It reports whether there were any.
func (l *links) retain(names []string) (changed bool) {
	if len(l.hops) == 0 {
		return false
	}
	present := make(map[string]struct{}, len(names))
	for _, name := range names {
		present[name] = struct{}{}
	}
	for name := range l.hops {
		if _, ok := present[name]; !ok {
			delete(l.hops, name)
			changed = true
		}
	}
	return changed
}

// index rebuilds dependents.
func (l *links) index() {
	l.dependents = make(map[string][]string)
	for name, hops := range l.hops {
		for _, h := range hops {
			l.dependents[h.path()] = append(l.dependents[h.path()], name)
		}
	}
}
