package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding/gzip"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// A client whose calls are compressed gets answers that are not, through the proxy too. The limits of the
// daemon count only those.
func TestAnswersOfCallsAreNotCompressed(t *testing.T) {
	d := newDaemon(t)
	address, _ := proxied(t, d.socket)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	bodies := map[string]string{
		"/v1alpha1.Pods/GetPod": "\x00\x00\x00\x00\x03\x0a\x01u",
	}
	for method := range readingCalls {
		t.Run(method, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
			defer cancel()
			body := bodies[method]
			if body == "" {
				body = "\x00\x00\x00\x00\x00"
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+method, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Encoding": {gzip.Name}, "Grpc-Accept-Encoding": {gzip.Name}}
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			prefix := make([]byte, 5)
			if _, err := io.ReadFull(resp.Body, prefix); err != nil {
				if status := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status"); status == "" || status == "0" {
					t.Fatalf("no message: %v, header %v, trailer %v", err, resp.Header, resp.Trailer)
				}
				return // the call is refused: this daemon has no history and no lookup
			}
			if encoding := resp.Header.Get("Grpc-Encoding"); encoding != "identity" || prefix[0] != 0 {
				t.Errorf("the encoding is %q, and the flag of the message %d", encoding, prefix[0])
			}
		})
	}
}
