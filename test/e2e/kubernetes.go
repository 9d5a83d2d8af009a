package e2e

import (
	"errors"
	"io"

	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// Dialer connects to the daemon's socket, and can be blocked.
type Dialer struct {
	Socket string
	mu     sync.Mutex
	conns  []net.Conn
	// held is locked while no connection can be made.
	Held sync.RWMutex
	// watchLists counts the watches that start with the current pods.
	WatchLists atomic.Int32
}

// RoundTripper is a function that sends requests.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Dial connects to the daemon, once connections can be made.
func (d *Dialer) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.Held.RLock()
	defer d.Held.RUnlock()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, conn)
	return &cutConn{conn}, nil
}

// cutConn is a connection that looks as if the other end had closed it. Then a Reflector
// resumes its watch, and does not list again.
type cutConn struct{ net.Conn }

func (c *cutConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// Cut closes all connections.
func (d *Dialer) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
}

// KubernetesClient returns a client of client-go.
func KubernetesClient(t *testing.T, d *Dialer, contentType string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://localhost", QPS: -1, Dial: d.Dial,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return RoundTripper(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("sendInitialEvents") == "true" {
					d.WatchLists.Add(1)
				}
				return next.RoundTrip(r)
			})
		},
		ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Cut)
	return client
}

// Files waits until the daemon has the pods of the directory, and returns them.
func (d *Daemon) Files() (*v1.PodList, error) {
	files, err := fs.Glob(os.DirFS(filepath.Join(d.Dir, "manifests")), "*.yaml")
	if err != nil {
		return nil, err
	}
	list, err := d.Client.Pods(context.Background())
	if err != nil {
		return nil, err
	}
	if len(list.Items) != len(files) {
		return nil, fmt.Errorf("/pods has %d pods, the directory %d manifests", len(list.Items), len(files))
	}
	return list, nil
}

// AwaitFiles waits until /pods has a pod for each manifest.
func (d *Daemon) AwaitFiles(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, func() error {
		_, err := d.Files()
		return err
	})
}
