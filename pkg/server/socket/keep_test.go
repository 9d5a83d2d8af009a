package socket

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// A file that is not a socket is not touched either.
func TestAFileInTheSocketsPlaceIsLeftAlone(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	made, err := listenAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	l := made.(*listener)
	if again, err := l.restore(t.Context()); again || err != nil {
		t.Errorf("restored what is there: %v, %v", again, err)
	}
	if err := os.WriteFile(path+".new", []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if again, err := l.restore(t.Context()); again || err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("restored where a file is: %v, %v", again, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "precious" {
		t.Errorf("the file: %q, %v", data, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := l.restore(t.Context()); !again || err != nil {
		t.Errorf("restored where nothing is: %v, %v", again, err)
	}
	// A closed server does not create the file.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if again, err := l.restore(t.Context()); again || err != nil {
		t.Errorf("restored after Close: %v, %v", again, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file after Close: %v", err)
	}
}

// For any failure, errors have the path that users know, not the name under which the
// socket was created.
func TestErrorsNameTheSocketsPath(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	l, err := listenAt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.(*listener).socket.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); err == nil || err.Error() != "accept unix "+path+": i/o timeout" {
		t.Errorf("Accept: %v", err)
	}
}
