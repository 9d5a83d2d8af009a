package daemon

import (
	"io/fs"
	"strings"

	"github.com/podconfigd/podconfigd/internal/smallfile"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
)

// MadeFile reports whether an entry of a directory looks like a file that a daemon created: a
// socket, its lock, the revision beside it, or a file of the state directory.
func MadeFile(e fs.DirEntry) bool {
	name := e.Name()
	switch {
	case e.Type() == fs.ModeSocket:
		return true
	case !e.Type().IsRegular():
		return false
	case store.IsFile(name), socket.IsLock(name), name == accessRulesName, name == accessRulesName+smallfile.NewSuffix,
		name == kubeletName, name == kubeletName+smallfile.NewSuffix:
		return true
	}
	_, unfinished, found := strings.Cut(name, revisionSuffix)
	return found && (unfinished == "" || unfinished == smallfile.NewSuffix || strings.HasPrefix(name, ".")) // the last one by an earlier version
}
