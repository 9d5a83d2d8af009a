package proxy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The clients of test/clients, for example that for Node.js, read the kubeconfig that the command prints.
func TestKubeconfigIsThatOfTheClients(t *testing.T) {
	tested, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "clients", "testdata", "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.TrimPrefix(string(Kubeconfig("127.0.0.1:10255")), mark)
	if printed != string(tested) {
		t.Errorf("podconfigctl proxy prints\n%s\nthe clients read\n%s", printed, tested)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for _, address := range []string{"127.0.0.1:1", "127.0.0.1:2"} {
		if err := WriteKubeconfig(path, address); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "server: http://"+address+"\n") {
			t.Errorf("%s, %v", data, err)
		}
	}
	if err := os.WriteFile(path, []byte("kind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteKubeconfig(path, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), path+" exists, and podconfigctl proxy has not written it: choose another file") {
		t.Error(err)
	}
}

// A path that is no regular file is refused at once. A link is not followed.
func TestWriteKubeconfigToOddPaths(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		syscall.Mkfifo(in("fifo"), 0o600), os.Mkdir(in("directory"), 0o700), WriteKubeconfig(in("config"), "127.0.0.1:1"),
		os.Symlink("config", in("link")), os.Symlink("nowhere", in("dangling")), os.Symlink("/dev/zero", in("endless")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fifo", "directory", "link", "dangling", "endless"} {
		t.Run(name, func(t *testing.T) {
			want := "writing the kubeconfig: " + in(name) + " exists, and podconfigctl proxy has not written it: choose another file"
			if err := WriteKubeconfig(in(name), "127.0.0.1:2"); err == nil || err.Error() != want {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if _, err := os.Lstat(in("nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a dangling link was followed")
	}
}
