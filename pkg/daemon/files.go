package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// revisions is a file beside the socket. It holds a revision that no earlier instance has
// exceeded. The next instance starts above it. So an instance never accepts a revision of
// an earlier one as its own, even if the clock was set back in between.
//
// If the socket is in /run, the file does not survive a reboot. It does not need to: after
// a reboot, the clock is read from the hardware or the network.
type revisions struct{ path string }

// revisionSuffix comes after the name of the socket.
const revisionSuffix = ".revision"

func revisionsBeside(socket string) revisions { return revisions{socket + revisionSuffix} }

// floor returns the revision in the file, or 0 if there is no file.
func (r revisions) floor() (int64, error) {
	data, err := smallfile.Read(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the highest revision: %w", err)
	}
	revision, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || revision < 0 || revision > maxFloor {
		return 0, fmt.Errorf("reading the highest revision: %s: expected a number of milliseconds since 1970; remove the file", r.path)
	}
	return revision, nil
}

// maxFloor is the largest accepted floor, the year 10000. It leaves room for revisions above it.
const maxFloor = 253402300800000

// reserve writes a revision to the file. It creates the directory if it is missing: like the
// socket, it may be removed while the daemon runs.
func (r revisions) reserve(ceiling int64) error {
	err := os.MkdirAll(filepath.Dir(r.path), 0o755)
	if err == nil {
		err = smallfile.Replace(r.path, strconv.FormatInt(ceiling, 10)+"\n")
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", r.path, err)
	}
	return nil
}

// exportName is the name of the state file of podconfigctl export in the state directory, in deploy/kubernetes/components/export. Its
// lock looks like that of a socket.
const exportName = "export.json"

// MadeFile reports whether an entry of a directory looks like a file that podconfigd or podconfigctl export created: a
// socket, its lock, the revision beside it, or a file of the state directory.
func MadeFile(e fs.DirEntry) bool {
	name := e.Name()
	switch {
	case e.Type() == fs.ModeSocket:
		return true
	case !e.Type().IsRegular():
		return false
	case store.IsFile(name), socket.IsLock(name), name == accessRulesName, name == accessRulesName+smallfile.NewSuffix,
		name == kubeletName, name == kubeletName+smallfile.NewSuffix, name == exportName, name == exportName+smallfile.NewSuffix:
		return true
	}
	_, unfinished, found := strings.Cut(name, revisionSuffix)
	return found && (unfinished == "" || unfinished == smallfile.NewSuffix || strings.HasPrefix(name, ".")) // the last one by an earlier version
}
