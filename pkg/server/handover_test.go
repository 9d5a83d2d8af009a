package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

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

// accepting is a listener that says when it accepts.
type accepting struct {
	net.Listener
	accepts chan struct{}
}

func (l accepting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepts <- struct{}{}
	}
	return conn, err
}

// A machine can stand still while the server ends. Then the time of the clients is not over.
func TestAServerEndsAfterAStandstill(t *testing.T) {
	const livez = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, early := range map[string]bool{"before the request": false, "before the answer": true} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("unix", filepath.Join(testutil.ShortDir(t), "s.sock"))
			if err != nil {
				t.Fatal(err)
			}
			l := accepting{inner, make(chan struct{}, 1)}
			j := journal.New(journal.Options{Sources: []string{"file"}})
			ctx, cancel := context.WithCancelCause(t.Context())
			stand := func() {}
			end := func() {
				cancel(errStopped)
				<-time.After(50 * time.Millisecond) // the server ends
				stand()
			}
			server := New(Options{Journal: j, Status: j.Status, Live: []Check{{Name: "slow", Check: func() error {
				if early {
					end()
				}
				return nil
			}}}})
			done := make(chan error)
			go func() { done <- server.Run(ctx, l) }()
			conn, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			<-l.accepts
			if early {
				stand = testutil.StandStill(t, "")
				if _, err := io.WriteString(conn, livez); err != nil {
					t.Fatal(err)
				}
			} else {
				file, err := conn.(*net.UnixConn).File()
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				stand = testutil.StandStill(t, "printf '"+livez+"' >&3", file)
				end()
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if err := <-done; !errors.Is(err, errStopped) || resp.StatusCode != http.StatusOK {
				t.Errorf("%s, and Run returned %v", resp.Status, err)
			}
		})
	}
}
