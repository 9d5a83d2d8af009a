package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// position is where a stream is resumed. The zero value is before all.
type position struct {
	Instance string `json:"instance"`
	Revision int64  `json:"revision"`
}

// loadPosition reads a position. It is zero without a file.
func loadPosition(path string) (p position, err error) {
	if path == "" {
		return p, nil
	}
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
