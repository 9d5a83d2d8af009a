package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// nginx is Debian's web server, serving a directory.
type nginx struct {
	dir, url string
	cmd      *exec.Cmd
}

func newNginx(t *testing.T) *nginx {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // nginx's workers read it
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	conf := filepath.Join(dir, "nginx.conf")
	err = os.WriteFile(conf, fmt.Appendf(nil, `
daemon off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events {}
http {
	access_log %[1]s/access.log;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	gzip on;
	gzip_types *;
	gzip_min_length 0;
	server {
		listen %[2]s;
		root %[1]s/www;
		default_type application/json;
		location /limited { return 429; }
		location /moved { return 302 /pods; }
		location /loop { return 302 /loop; }
	}
}`, dir, address), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := &nginx{dir: dir, url: "http://" + address}
	n.cmd = exec.Command(path, "-c", conf)
	n.cmd.Stderr = os.Stderr
	if err := n.cmd.Start(); err != nil {
		t.Fatalf("%v: make test-deps installs it", err)
	}
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	})
	until(t, 10*time.Second, "nginx listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return n
}

// put makes nginx serve the content, in one step.
func (n *nginx) put(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(n.dir, "www", name)
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
