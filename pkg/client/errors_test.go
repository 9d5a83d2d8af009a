package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// The kernel names the other end of a connection by the name under which the daemon created
// its socket. Errors name the path that users know.
func TestErrorsNameTheSocket(t *testing.T) {
	dir := testutil.ShortDir(t)
	path := filepath.Join(dir, "podconfigd.sock")
	l, err := socket.Listen(t.Context(), socket.ListenOptions{Path: path, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		var failed error
		for range 3 {
			conn, err := l.Accept()
			if err != nil {
				failed = err
				break
			}
			// What is not read of the request makes the kernel reset the connection.
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				failed = err
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
			_ = conn.Close()
		}
		ended <- failed
	}()
	c := client.New(path)
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.ECONNRESET) || !strings.Contains(err.Error(), path+": ") || strings.Contains(err.Error(), dir+"/.") {
			t.Errorf("%s: %v, want a reset connection to %s", what, err, path)
		}
	}
	_, err = c.Status(t.Context())
	check("Status", err)
	for _, err := range c.Updates(t.Context(), client.Options{Once: true}) {
		check("Updates", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	retry := func(err error, _ time.Duration) { check("OnDisconnect", err); cancel() }
	for u, err := range c.Updates(ctx, client.Options{OnDisconnect: retry}) {
		t.Errorf("got %v, %v", u, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The error for a path that is no socket says what it is.
func TestAPathThatIsNoSocket(t *testing.T) {
	dir := testutil.ShortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                          "it is a directory: in a container, mount the directory of the socket",
		file:                         "not a socket: set the path with --socket",
		filepath.Join(dir, "nobody"): "is podconfigd running, and is this its socket?",
	} {
		if _, err := client.New(path).Status(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
