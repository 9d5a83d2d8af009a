// Package ownership gives directories to a user.
package ownership

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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

var errNotDirectory = errors.New("it is not a directory: give the directory itself")

// Give creates a directory, unless it exists, and gives it to the owner with everything in it.
// A directory that belongs to the owner stays as it is. A symbolic link in its place is an error.
// Of root's capabilities, Give needs CAP_CHOWN only.
func Give(dir string, owner Owner) error {
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
	err = give(dir, info, owner)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; run as root with CAP_CHOWN", err)
	}
	if err != nil {
		return fmt.Errorf("giving %s to %s: %w", dir, owner, err)
	}
	return nil
}

func has(info fs.FileInfo, owner Owner) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == owner.UID && int(stat.Gid) == owner.GID
}

// give gives a directory last, so that an interrupted one is given again. Below dir, it follows
// no symbolic link.
func give(dir string, info fs.FileInfo, owner Owner) error {
	self := Owner{os.Geteuid(), os.Getegid()}
	if err := os.Lchown(dir, self.UID, self.GID); err != nil { // to read it without CAP_DAC_OVERRIDE
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if opened, err := root.Stat("."); err != nil || !os.SameFile(opened, info) { // it was replaced
		return cmp.Or(err, errNotDirectory)
	}
	if err := giveEntries(root, ".", self, owner); err != nil {
		return err
	}
	return root.Lchown(".", owner.UID, owner.GID)
}

func giveEntries(root *os.Root, dir string, self, owner Owner) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if entry.IsDir() {
			if err := root.Lchown(name, self.UID, self.GID); err != nil {
				return err
			}
			if err := giveEntries(root, name, self, owner); err != nil {
				return err
			}
		}
		if err := root.Lchown(name, owner.UID, owner.GID); err != nil {
			return err
		}
	}
	return nil
}
