package manifests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// The mode is the one that the file has when it is closed: cp -p creates a file with 0600,
// and sets the mode after it has written the file.
func TestTheModeIsThatOfTheClosedFile(t *testing.T) {
	l := looker{decoder: manifest.NewDecoder("n"), metrics: newMetrics(nil)}
	path := filepath.Join(t.TempDir(), "web.yaml")
	data := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i}]}\n")
	for range 3000 {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
		if writers(f) == unknownWriters {
			_ = f.Close()
			t.Skip("this file system does not know who has a file open")
		}
		closed := make(chan error)
		go func() {
			err := f.Chmod(0o640)
			_ = f.Close()
			closed <- err
		}()
		s := l.look(path, knowledge{})
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if s.file != nil && s.file.Mode != 0o640 {
			t.Fatalf("%+v", s.file)
		}
	}
}
