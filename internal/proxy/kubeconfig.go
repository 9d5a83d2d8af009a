package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// mark is the first line of a kubeconfig, by which a file that can be replaced is known.
const mark = "# Written by podconfigd proxy.\n"

// Kubeconfig returns a kubeconfig for the address of a proxy.
func Kubeconfig(address string) []byte {
	return fmt.Appendf(nil, mark+`apiVersion: v1
kind: Config
clusters:
- name: podconfigd
  cluster:
    server: http://%s
contexts:
- name: podconfigd
  context:
    cluster: podconfigd
    user: ""
current-context: podconfigd
`, address)
}

// WriteKubeconfig writes a kubeconfig. It replaces only a file that it has written.
func WriteKubeconfig(path, address string) error {
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("writing the kubeconfig: %w", err)
	case !bytes.HasPrefix(old, []byte(mark)):
		return fmt.Errorf("writing the kubeconfig: %s exists, and podconfigd proxy has not written it: choose another file", path)
	}
	if err := os.WriteFile(path, Kubeconfig(address), 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
