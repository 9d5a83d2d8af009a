package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The clients of test/clients, for example that for Node.js, read the kubeconfig that the command prints.
func TestKubeconfigIsThatOfTheClients(t *testing.T) {
	tested, err := os.ReadFile(filepath.Join("..", "..", "test", "clients", "testdata", "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	printed := strings.TrimPrefix(string(Kubeconfig("127.0.0.1:10255")), mark)
	if printed != string(tested) {
		t.Errorf("podconfigd proxy prints\n%s\nthe clients read\n%s", printed, tested)
	}
}
