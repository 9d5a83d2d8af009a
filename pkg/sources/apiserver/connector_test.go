package apiserver

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/components"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Changed files, and a refused client, cause a new client. Only changed files are a
// reason to retry at once. Otherwise a client with refused credentials would never wait.
func TestConnector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c := newConnector(path, "")
	defer c.close()
	if client, _, broken := c.get(); client != nil || broken == nil {
		t.Fatalf("of no kubeconfig came %v, %v", client, broken)
	}
	_, changed, _ := c.get()
	conf := components.NewKubeconfig("https://127.0.0.1:1", nil)
	components.WriteKubeconfig(t, path, conf)
	first, _, broken := c.get()
	if first == nil || broken != nil || !closed(changed) {
		t.Fatalf("the kubeconfig gives %v, %v, changed %t", first, broken, closed(changed))
	}
	again, changed, _ := c.get()
	if again != first || closed(changed) {
		t.Error("the same files made another client")
	}
	c.distrust(first)
	second, _, _ := c.get()
	if second == first || closed(changed) {
		t.Errorf("refused: another client %t, changed %t, want another client without a change", second != first, closed(changed))
	}
	c.distrust(first) // from a request that started before
	if third, _, _ := c.get(); third != second {
		t.Error("a client was given up for the one before it")
	}
	conf.AuthInfos["user"].Token = "another"
	components.WriteKubeconfig(t, path, conf)
	if third, _, _ := c.get(); third == second || !closed(changed) {
		t.Error("the changed files caused no new client, or no change")
	}
}

// A transport goes on with a dial whose request has ended. The source keeps no such connection.
func TestADialThatEndsAfterTheSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	components.WriteKubeconfig(t, path, components.NewKubeconfig("http://127.0.0.1:1", nil))
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Kubeconfig: path, Node: "node"})
		ours, theirs := net.Pipe()
		defer ours.Close()
		connected := make(chan struct{})
		s.connector.dial = func(context.Context, string, string) (net.Conn, error) {
			<-connected
			return ours, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, make(chan config.SourceSet)) }()
		synctest.Wait()
		cancel()
		<-ended
		eof := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, theirs)
			close(eof)
		}()
		close(connected)
		<-time.After(time.Second)
		if !closed(eof) {
			t.Error("the connection is open")
		}
	})
}

// This also holds for a client that another one replaces.
func TestADialThatEndsAfterItsClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	components.WriteKubeconfig(t, path, components.NewKubeconfig("http://127.0.0.1:1", nil))
	c := newConnector(path, "")
	defer c.close()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	dialing, connected := make(chan struct{}), make(chan struct{})
	c.dial = func(context.Context, string, string) (net.Conn, error) {
		close(dialing)
		<-connected
		return ours, nil
	}
	first, _, _ := c.get()
	failed := make(chan error)
	go func() {
		_, err := first.dialContext(t.Context(), "tcp", "127.0.0.1:1")
		failed <- err
	}()
	<-dialing
	c.distrust(first)
	if second, _, _ := c.get(); second == first {
		t.Error("the client is not replaced")
	}
	close(connected)
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Fatalf("the dial returns %v", err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
}
