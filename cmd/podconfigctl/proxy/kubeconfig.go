package proxy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// mark is the first line of a kubeconfig of WriteKubeconfig. A file that begins with it can be replaced.
const mark = "# Written by podconfigctl proxy.\n"

// Kubeconfig returns a kubeconfig for the address of a proxy.
func Kubeconfig(address string) []byte {
	return fmt.Appendf(nil, mark+`apiVersion: v1
kind: Config
clusters:
- name: podconfigd
  cluster:
    server: http://%s
    # Without this line, the client for Node.js refuses plain HTTP.
    insecure-skip-tls-verify: true
contexts:
- name: podconfigd
  context:
    cluster: podconfigd
    user: ""
current-context: podconfigd
`, address)
}

// WriteKubeconfig writes a kubeconfig. It replaces only a regular file that it has written.
func WriteKubeconfig(path, address string) error {
	if err := writeKubeconfig(path, Kubeconfig(address)); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

func writeKubeconfig(path string, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if file, err = openOurs(path); err == nil {
			err = file.Truncate(0)
		}
	}
	if file == nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	return err
}

// openOurs opens a file that WriteKubeconfig has written.
func openOurs(path string) (*os.File, error) {
	foreign := fmt.Errorf("%s exists, and podconfigctl proxy has not written it: choose another file", path)
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, foreign
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	start := make([]byte, len(mark))
	now, err := file.Stat()
	if err == nil && os.SameFile(before, now) {
		_, err = io.ReadFull(file, start)
	}
	if err != nil || string(start) != mark {
		_ = file.Close() // it was only read
		return nil, foreign
	}
	return file, nil
}
