package clients

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// target is the server of the metrics of all pods. It answers on all loopback addresses, because
// the IPs of the pods are loopback addresses.
func target(t *testing.T) (port string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "answers{path=%q} 1\n", r.URL.Path)
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
