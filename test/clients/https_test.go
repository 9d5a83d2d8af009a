package clients

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/podconfigd/podconfigd/test/components"
)

// token is the token of the clients over https.
const token = "secret-of-the-agents"

// serveHTTPS adds the https listeners to the daemon's flags.
func (n *node) serveHTTPS(t *testing.T) {
	t.Helper()
	n.https = components.FreeAddress(t)
	// Telegraf has a fixed port. Other tests on this machine may also run it, so the address is random.
	n.ip = fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
	ca := components.NewAuthority(t, "clients")
	cert, key := ca.Issue(t, "podconfigd")
	for name, data := range map[string][]byte{
		"ca.crt": ca.PEM, "tls.crt": cert, "tls.key": key, "token": []byte(token), "tokens.csv": []byte(token + ",agent,1\n"),
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.args = append(n.args,
		"--listen", "https://"+n.https, "--listen", "https://"+n.ip+":10250",
		"--tls-cert-file", filepath.Join(n.dir, "tls.crt"), "--tls-private-key-file", filepath.Join(n.dir, "tls.key"),
		"--token-auth-file", filepath.Join(n.dir, "tokens.csv"), "--authorization-mode", "AlwaysAllow")
}

// kubeconfig returns the path of the kubeconfig, for https on durable nodes, and for plain
// HTTP on the others. There are replacements for https.
func (n *node) kubeconfig(t *testing.T, replace ...string) string {
	t.Helper()
	if !n.durable {
		return n.config(t, "kubeconfig")
	}
	path := n.config(t, "kubeconfig-https", replace...)
	if err := os.Rename(path, filepath.Join(n.dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(n.dir, "kubeconfig")
}
