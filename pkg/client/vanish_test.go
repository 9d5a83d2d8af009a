package client_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// deaf is a connection whose other end is gone when dead is closed: nothing arrives anymore.
type deaf struct {
	net.Conn
	dead chan struct{}
}

func (d *deaf) Write(data []byte) (int, error) {
	select {
	case <-d.dead:
		return len(data), nil
	default:
		return d.Conn.Write(data)
	}
}

// A server that is gone without a word, for example after a power loss, is noticed after 45
// seconds, also on a stream on which nothing is to be sent.
func TestAServerThatVanishes(t *testing.T) {
	p := newPKI(t, "ca")
	config := p.serverTLS(t)
	synctest.Test(t, func(t *testing.T) {
		l, dead := testutil.NewPipes(), make(chan struct{})
		sent := make(chan struct{})
		s := &http.Server{
			TLSConfig: config, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, `{"op":"BOOKMARK","instance":"i","revision":1}`+"\n")
				_ = http.NewResponseController(w).Flush()
				close(sent)
				<-r.Context().Done()
			}),
		}
		done := make(chan error)
		go func() { done <- s.ServeTLS(l, "", "") }()
		c := mustClient(t, client.Config{
			Server: "https://127.0.0.1:1", TLSClientConfig: client.TLSClientConfig{Insecure: true}, // the clock of the test is earlier than the certificate
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, err := l.Dial()
				return &deaf{ours, dead}, err
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var vanished time.Time
		var noticed time.Duration
		retry := func(error, time.Duration) { noticed = time.Since(vanished); cancel() }
		for _, err := range c.Updates(ctx, client.Options{OnDisconnect: retry}) {
			if err != nil {
				t.Fatal(err)
			}
			<-sent
			vanished = time.Now()
			close(dead)
		}
		if want := 45 * time.Second; noticed > want+time.Second || noticed < want-time.Second {
			t.Errorf("noticed after %v, want %v", noticed, want)
		}
		_ = s.Close()
		<-done
	})
}
