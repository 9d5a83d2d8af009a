package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// prefix is the path of the address of a gateway.
const prefix = "/api/v1/nodes/n1/proxy"

// arrived is a request that has arrived at a gateway.
type arrived struct {
	method, target, body string
	header, trailer      http.Header
}

// gateway is an https address with a path, which keeps the requests that arrive.
type gateway struct {
	mu   sync.Mutex // guards what follows
	seen []arrived
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	g.seen = append(g.seen, arrived{r.Method, r.RequestURI, string(body), r.Header.Clone(), r.Trailer.Clone()})
	g.mu.Unlock()
	if r.Header.Get("Upgrade") != "" {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		return
	}
	_, _ = io.WriteString(w, "arrived")
}

// take returns the requests that have arrived since the last call.
func (g *gateway) take() []arrived {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := g.seen
	g.seen = nil
	return seen
}

// proxiedGateway serves a gateway with a proxy that has a token for it.
func proxiedGateway(t *testing.T) (g *gateway, address string) {
	t.Helper()
	g = new(gateway)
	server := httptest.NewUnstartedServer(g)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config := client.Config{Server: server.URL + prefix, BearerToken: "owner"}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	address, _ = proxiedBy(t, c)
	return g, address
}

// proxiedBy serves what sends requests to a daemon.
func proxiedBy(t *testing.T, by http.RoundTripper) (address string, stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- Serve(ctx, l, by) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(testutil.Patience))
	return conn
}

// sendHTTP1 sends a request whose target and fields are these bytes.
func sendHTTP1(t *testing.T, address, method, target, body string, fields ...string) (code int, answer string) {
	t.Helper()
	conn := dial(t, address)
	defer conn.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, target)
	for i := 0; i < len(fields); i += 2 {
		head += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	if body != "" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := io.WriteString(conn, head+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, &http.Request{Method: method})
	if err == nil && resp.StatusCode == http.StatusContinue {
		_ = resp.Body.Close() // it has none
		resp, err = http.ReadResponse(reader, &http.Request{Method: method})
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, ""
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp.StatusCode, string(data)
}

// sendHTTP2 sends a request whose :path and fields are these bytes. The code is "reset" if the stream was
// reset.
func sendHTTP2(t *testing.T, address, method, target, body string, fields ...string) (code, answer string, trailer map[string]string) {
	t.Helper()
	conn := dial(t, address)
	defer conn.Close()
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	all := append([]string{":method", method, ":scheme", "http", ":path", target, ":authority", "127.0.0.1"}, fields...)
	for i := 0; i < len(all); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}) // a buffer
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	for _, write := range []func() error{
		func() error { return framer.WriteSettings() },
		func() error {
			return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: body == ""})
		},
		func() error {
			if body == "" {
				return nil
			}
			return framer.WriteData(1, true, []byte(body))
		},
	} {
		if err == nil {
			err = write()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return readHTTP2(t, framer)
}

// readHTTP2 reads the answer on the first stream.
func readHTTP2(t *testing.T, framer *http2.Framer) (code, answer string, trailer map[string]string) {
	t.Helper()
	trailer = make(map[string]string)
	var data strings.Builder
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status := frame.PseudoValue("status"); status != "" {
				code = status
			}
			for _, field := range frame.RegularFields() {
				trailer[field.Name] = field.Value
			}
		case *http2.DataFrame:
			data.Write(frame.Data())
		case *http2.RSTStreamFrame:
			if code == "" {
				code = "reset"
			}
			return code, data.String(), trailer
		}
		if frame.Header().Flags.Has(http2.FlagDataEndStream) && frame.Header().StreamID == 1 {
			return code, data.String(), trailer
		}
	}
}
