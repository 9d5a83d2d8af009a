package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// position is where a stream is resumed. The zero value is before all.
type position struct {
	Instance string `json:"instance"`
	Revision int64  `json:"revision"`
}

// maxLinks is how many symbolic links a state file can be behind.
const maxLinks = 40

// lockPosition locks a state file until the result is closed, and returns its path behind links, which can lead to a file that does not
// exist yet. Of two processes with one file, each would store a position up to which only the other has sent.
func lockPosition(path string) (string, io.Closer, error) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil { // it is no link
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + string(filepath.Separator) + to // Join removes a link before ".."
		}
		path = to
	}
	lock, err := smallfile.Lock(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock"))
	switch {
	case errors.Is(err, smallfile.ErrLocked):
		return "", nil, fmt.Errorf("--state-file: another export uses %s: give each its own file", path)
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		return "", nil, fmt.Errorf("--state-file: %w", err)
	}
	return path, lock, nil
}

// loadPosition reads a position. It is zero without a file.
func loadPosition(path string) (p position, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err == nil && (p.Revision <= 0 || p.Instance == "") {
		err = errors.New("it has no instance and revision")
	}
	if err != nil {
		return p, fmt.Errorf("reading the position in --state-file %s: %w: to start with the current pods, remove it", path, err)
	}
	return p, nil
}

// store replaces the file. After a power cut, it has this position or the one before.
func (p position) store(path string) error {
	temp := path + ".new"
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(asJSON(p) + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
