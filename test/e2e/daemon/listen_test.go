package daemon

import (
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/e2e"
	"github.com/podconfigd/podconfigd/test/testutil"
)

var servedReadOnly = regexp.MustCompile(`read-only" address="(http://[^"]+)"`)

// A daemon serves the same pods on all its addresses.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	dir := testutil.ShortDir(t)
	(&e2e.Daemon{Dir: dir}).Mkdir(t)
	(&e2e.Daemon{Dir: dir}).Put(t, "web", "image")
	further := filepath.Join(dir, "further")
	listen := []string{"--socket-mode", "0600", "--listen", "unix://" + further, "--listen", "http://localhost:0"}
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		listen = append(listen, "--listen", "http://[::1]:0")
	}
	d := e2e.Start(t, dir, listen...)
	addresses := []string{"unix://" + further}
	d.Await(t, "the addresses in the log", func() bool {
		return strings.Contains(d.Log.String(), "podconfigd started") // after them
	})
	for _, m := range servedReadOnly.FindAllStringSubmatch(d.Log.String(), -1) {
		addresses = append(addresses, m[1])
	}
	if len(addresses) != len(listen)/2-1 { // one pair is the mode
		t.Errorf("the log has %v", addresses)
	}
	if info, err := os.Stat(further); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	for _, address := range addresses {
		c, err := client.NewForConfig(client.Config{Server: address})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for u, err := range c.Updates(t.Context(), client.Options{}) {
			if err != nil {
				t.Fatalf("%s: %v", address, err)
			}
			for _, p := range u.Pods {
				names = append(names, p.Name)
			}
			if len(names) > 0 {
				break
			}
		}
		if strings.Join(names, " ") != "web-node1" {
			t.Errorf("%s has %v", address, names)
		}
		if !strings.HasPrefix(address, "http") {
			continue
		}
		resp, err := http.Post(address+"/v1alpha1/release?source=file", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "this address is read-only") {
			t.Errorf("%s: release: %s %s", address, resp.Status, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := d.End(t, syscall.SIGTERM); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	if _, err := os.Stat(further); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}
