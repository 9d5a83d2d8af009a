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

	"golang.org/x/sys/unix"
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
// Give changes nothing and returns an error if made does not report true for each entry: the directory may belong to
// the system, or to another program. The same holds for a symbolic link in place of the directory, and for a file
// that has another name elsewhere. Of root's capabilities, Give needs only CAP_CHOWN.
func Give(dir string, owner Owner, made func(fs.DirEntry) bool) error {
	if dir == "" {
		return errNoDirectory
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating a directory for %s: %w", owner, err)
	}
	top, err := os.OpenFile(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOTDIR) { // a link: another user may have made it
		return fmt.Errorf("giving %s to %s: %w", dir, owner, errNotDirectory)
	}
	if err != nil {
		return fmt.Errorf("giving a directory to %s: %w", owner, err)
	}
	defer top.Close()
	err = give(top, owner, made)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; run as root with CAP_CHOWN", err)
	}
	if err != nil {
		return fmt.Errorf("giving %s to %s: %w", dir, owner, err)
	}
	return nil
}

func ownerOf(f *os.File) (Owner, error) {
	var stat unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &stat)
	return Owner{int(stat.Uid), int(stat.Gid)}, err
}

// chown gives the file itself. Its name may have another file since it was opened.
func chown(f *os.File, to Owner) error {
	return unix.Fchownat(int(f.Fd()), "", to.UID, to.GID, unix.AT_EMPTY_PATH)
}

// give gives the directory. Without CAP_DAC_OVERRIDE, root can't read a directory that only another user may read. So
// give first gives such a directory to root. If the rest fails, it gives the directory back.
func give(top *os.File, owner Owner, made func(fs.DirEntry) bool) error {
	before, err := ownerOf(top)
	if err != nil || before == owner {
		return err
	}
	err = giveAll(top, owner, made)
	self := Owner{os.Geteuid(), os.Getegid()}
	if !errors.Is(err, fs.ErrPermission) || before.UID == self.UID {
		return err
	}
	if err := chown(top, self); err != nil {
		return err
	}
	if err := giveAll(top, owner, made); err != nil {
		return errors.Join(err, chown(top, before))
	}
	return nil
}

// lostAndFound is in the top directory of a file system, and is the system's.
const lostAndFound = "lost+found"

// giveAll gives the files, and the directory last. So a call after an interrupted one gives everything again.
func giveAll(top *os.File, owner Owner, made func(fs.DirEntry) bool) error {
	dir, err := openAt(top, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lostAndFound && e.IsDir() })
	for _, entry := range entries {
		if !made(entry) {
			return fmt.Errorf("podconfigd did not create %q in it: give a directory that only podconfigd uses", entry.Name())
		}
	}
	for _, changes := range []bool{false, true} { // what is refused changes nothing
		for _, entry := range entries {
			if err := giveFile(dir, entry.Name(), owner, changes); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return chown(top, owner)
}

// giveFile gives a file of a directory, or only checks whether it can be given. It follows no link.
func giveFile(dir *os.File, name string, owner Owner, changes bool) error {
	f, err := openAt(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return err
	}
	if stat.Nlink > 1 {
		return fmt.Errorf("%q in it has another name elsewhere (a hard link): remove the name in the directory", name)
	}
	if !changes {
		return nil
	}
	return chown(f, owner)
}

func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
