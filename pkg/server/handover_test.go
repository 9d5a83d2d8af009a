package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// No request is lost if one server ends and another one gets the socket: clients that connect
// meanwhile wait, and connections that were accepted are answered.
func TestASocketIsHandedOver(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	made, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	made.SetUnlinkOnClose(false)
	defer made.Close()
	pass := func() net.Listener {
		f, err := made.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		passed, err := net.FileListener(f)
		if err != nil {
			t.Fatal(err)
		}
		l, err := socket.Adopt(t.Context(), socket.ListenOptions{Path: path, Flag: "--socket", Mode: 0o600}, passed.(*net.UnixListener))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	j := journal.New(journal.Options{Sources: []string{"file"}})
	stopped := make(chan struct{})
	var clients sync.WaitGroup
	for _, page := range []string{"/pods", "/v1alpha1/status", "/livez"} {
		clients.Go(func() {
			transport := unixTransport(path)
			transport.DisableKeepAlives = true
			client := http.Client{Transport: transport, Timeout: testutil.Patience}
			for {
				select {
				case <-stopped:
					return
				default:
				}
				resp, err := client.Get("http://localhost" + page)
				if err != nil {
					t.Errorf("%s: %v", page, err)
					continue
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %s %s, %v", page, resp.Status, body, err)
				}
			}
		})
	}
	for range 30 {
		server := New(Options{Journal: j, Status: j.Status})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		l := pass()
		go func() { done <- server.Run(ctx, l) }()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		request(t, conn, "/livez", "")
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("the server does not answer: %v", err)
		}
		_ = conn.Close()
		cancel(errStopped)
		if err := <-done; !errors.Is(err, errStopped) {
			t.Errorf("Run returned %v", err)
		}
	}
	close(stopped)
	l := pass() // answers those that wait
	server := New(Options{Journal: j, Status: j.Status})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- server.Run(ctx, l) }()
	clients.Wait()
	cancel(errStopped)
	<-done
}
