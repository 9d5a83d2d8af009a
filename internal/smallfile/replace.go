package smallfile

import (
	"errors"
	"io/fs"
	"os"
)

// NewSuffix comes after the name of a file while Replace writes it.
const NewSuffix = ".new"

// Replace replaces a file, which only its owner can read. A reader finds what was there before, or
// all of the text. A link in its place is replaced, not followed.
func Replace(path, text string) error {
	temp := path + NewSuffix
	err := writeNew(temp, text)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
	}
	return err
}

// writeNew writes a new file. What is in its place is left from an earlier run, or a link; it is
// replaced.
func writeNew(name, text string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
