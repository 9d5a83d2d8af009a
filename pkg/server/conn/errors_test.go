package conn

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/server/socket"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Errors of a connection have the path of the socket too.
func TestErrorsOfConnectionsNameTheSocket(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s.sock")
	l, err := socket.Listen(t.Context(), socket.ListenOptions{Path: path, Mode: 0o600})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := NewSplitter(l, &NewLimiter(Limits{}, nil).Sockets).admit(accepted)
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = client.Close() // with an unread byte, so that the connection is reset
	_, readErr := conn.Read(make([]byte, 1))
	_, writeErr := conn.Write([]byte("x"))
	for _, err := range []error{readErr, writeErr} {
		if err == nil || !strings.Contains(err.Error(), " unix "+path+"->@: ") {
			t.Errorf("got %v, want an error that names %s", err, path)
		}
	}
}
