// Package ownership gives directories to a user.
package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Owner is a user and a group.
type Owner struct{ UID, GID int }

func (o Owner) String() string { return fmt.Sprintf("%d:%d", o.UID, o.GID) }

// ParseOwner reads "UID:GID".
func ParseOwner(s string) (Owner, error) {
	user, group, _ := strings.Cut(s, ":")
	uid, userErr := strconv.ParseUint(user, 10, 31)
	gid, groupErr := strconv.ParseUint(group, 10, 31)
	if userErr != nil || groupErr != nil {
		return Owner{}, fmt.Errorf("%q is not an owner: expected UID:GID, two numbers", s)
	}
	return Owner{int(uid), int(gid)}, nil
}

var (
	errNoDirectory  = errors.New("the name of a directory is empty: expected a path")
	errNotDirectory = errors.New("it is not a directory: give the directory itself")
)

// Give creates a directory, unless it exists, and gives it to the owner with the files in it. A
// directory that belongs to the owner stays as it is.
//
// A directory with something that made does not know is an error that changes nothing: it is one
// of the system, or of another program. A symbolic link in place of the directory is an error too.
// Of root's capabilities, Give needs CAP_CHOWN only.
func Give(dir string, owner Owner, made func(fs.DirEntry) bool) error {
	if dir == "" {
		return errNoDirectory
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating a directory for %s: %w", owner, err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("giving a directory to %s: %w", owner, err)
	}
	if !info.IsDir() { // a link: another user may have made it
		return fmt.Errorf("giving %s to %s: %w", dir, owner, errNotDirectory)
	}
	if has(info, owner) {
		return nil
	}
	err = give(dir, info, owner, made)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; run as root with CAP_CHOWN", err)
	}
	if err != nil {
		return fmt.Errorf("giving %s to %s: %w", dir, owner, err)
	}
	return nil
}

func has(info fs.FileInfo, owner Owner) bool { return ownerOf(info) == owner }

func ownerOf(info fs.FileInfo) Owner {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok { // never on Linux
		return Owner{-1, -1}
	}
	return Owner{int(stat.Uid), int(stat.Gid)}
}

// lostAndFound is in the top directory of a file system, and is the system's.
const lostAndFound = "lost+found"

// give gives the directory last, so that an interrupted one is given again. It follows no symbolic
// link.
func give(dir string, info fs.FileInfo, owner Owner, made func(fs.DirEntry) bool) error {
	root, entries, err := list(dir, info)
	if errors.Is(err, fs.ErrPermission) {
		return giveForeign(dir, info, owner, made)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lostAndFound && e.IsDir() })
	for _, entry := range entries {
		if !made(entry) {
			return fmt.Errorf("podconfigd did not create %q in it: give a directory that only podconfigd uses", entry.Name())
		}
	}
	for _, entry := range entries {
		if err := root.Lchown(entry.Name(), owner.UID, owner.GID); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return root.Lchown(".", owner.UID, owner.GID)
}

// giveForeign gives a directory that only another user may read. Without CAP_DAC_OVERRIDE, root
// has to take it first. It goes back if it can't be given.
func giveForeign(dir string, info fs.FileInfo, owner Owner, made func(fs.DirEntry) bool) error {
	self, before := Owner{os.Geteuid(), os.Getegid()}, ownerOf(info)
	if before.UID == self.UID { // it may not read its own directory
		return fs.ErrPermission
	}
	if err := os.Lchown(dir, self.UID, self.GID); err != nil {
		return err
	}
	taken, err := os.Lstat(dir)
	if err == nil && !os.SameFile(taken, info) {
		err = errNotDirectory
	}
	if err == nil {
		err = give(dir, taken, owner, made)
	}
	if err != nil {
		err = errors.Join(err, os.Lchown(dir, before.UID, before.GID))
	}
	return err
}

// list lists the directory of info.
func list(dir string, info fs.FileInfo) (*os.Root, []fs.DirEntry, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	opened, err := root.Stat(".")
	if err == nil && !os.SameFile(opened, info) { // it was replaced
		err = errNotDirectory
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = fs.ReadDir(root.FS(), ".")
	}
	if err != nil {
		_ = root.Close() // the first error is the one to report
		return nil, nil, err
	}
	return root, entries, nil
}
