package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/test/components"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Nginx is Debian's web server, which serves a directory.
type Nginx struct {
	Dir, URL string
	cmd      *exec.Cmd
	Start    func(t *testing.T)
}

// NewNginx starts nginx. With an authority it uses TLS, and requires a client certificate
// of the authority.
func NewNginx(t *testing.T, authorities ...*components.Authority) *Nginx {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	dir := testutil.ShortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	address := components.FreeAddress(t)
	scheme, listen := "http", "listen "+address+";"
	for _, authority := range authorities {
		cert, key := authority.Issue(t, "nginx")
		for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		scheme = "https"
		listen = fmt.Sprintf("listen %[1]s ssl; ssl_certificate %[2]s/tls.crt; ssl_certificate_key %[2]s/tls.key;"+
			"ssl_client_certificate %[2]s/ca.crt; ssl_verify_client optional_no_ca;"+
			`if ($ssl_client_s_dn !~ "CN=allowed") { return 403; }`, address, dir)
	}
	conf := filepath.Join(dir, "nginx.conf")
	err = os.WriteFile(conf, fmt.Appendf(nil, `
daemon off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events {}
http {
	log_format conditions '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_if_none_match"';
	access_log %[1]s/access.log conditions;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	gzip on;
	gzip_types *;
	gzip_min_length 0;
	server {
		%[2]s
		root %[1]s/www;
		default_type application/json;
		recursive_error_pages on;
		include %[1]s/answer;
	}
}`, dir, listen), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "www"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := &Nginx{Dir: dir, URL: scheme + "://" + address}
	n.Answer(t, "")
	n.Start = func(t *testing.T) {
		t.Helper()
		n.cmd = exec.Command(path, "-c", conf)
		n.cmd.Stderr = os.Stderr
		// Also the workers, which survive a killed master.
		n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := n.cmd.Start(); err != nil {
			t.Fatalf("%v: make test-deps installs it", err)
		}
		testutil.Until(t, "nginx answers", func() bool { return n.works(address) })
	}
	n.Start(t)
	t.Cleanup(func() { n.Signal(syscall.SIGKILL) })
	return n
}

// works tells whether a worker of nginx answers. A master without workers listens already,
// but loses a SIGHUP or dies of it.
func (n *Nginx) works(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // short: it is tried again
	// Answered with 400, also by a port for TLS.
	if _, err := conn.Write([]byte("no request\r\n\r\n")); err != nil {
		return false
	}
	answered, _ := conn.Read(make([]byte, 1))
	return answered == 1
}

// Signal sends a signal to all processes of nginx, and waits for the end if the signal
// ends it.
func (n *Nginx) Signal(signal syscall.Signal) {
	_ = syscall.Kill(-n.cmd.Process.Pid, signal)
	if signal == syscall.SIGKILL {
		_ = n.cmd.Wait()
	}
}

// Answer makes nginx answer with these directives instead of files.
func (n *Nginx) Answer(t *testing.T, directives string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.Dir, "answer"), []byte(directives), 0o600); err != nil {
		t.Fatal(err)
	}
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(syscall.SIGHUP)
	}
}

// Put makes nginx serve the content, in one step.
func (n *Nginx) Put(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(n.Dir, "www", name)
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
