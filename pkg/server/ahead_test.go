package server

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// While a client over HTTP/2 does not read, podconfigd reads no more than a little from it. It goes on
// when the client reads, and ends when the connection is closed.
func TestReadAheadOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		conn := newAdmittedConn(server, &net.UnixAddr{}, nil, func() {})
		go func() { _, _ = client.Write(make([]byte, 10*maxAhead)) }()
		read := 0
		go func() {
			for into := make([]byte, 3000); ; {
				n, err := conn.Read(into)
				if read += n; err != nil {
					read = -1
					return
				}
			}
		}()
		synctest.Wait()
		if read != 10*maxAhead {
			t.Errorf("%d bytes were read while nothing was written, want all", read)
		}
		for range 2 {
			read = 0
			go func() { _, _ = conn.Write([]byte("unread")) }()
			synctest.Wait()
			go func() { _, _ = client.Write(make([]byte, 10*maxAhead)) }()
			synctest.Wait()
			if read > maxAhead+3000 || read < maxAhead {
				t.Errorf("%d bytes were read during a write, want %d", read, maxAhead)
			}
			if _, err := client.Read(make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if read != 10*maxAhead {
				t.Errorf("%d bytes were read after the write, want all", read)
			}
		}
		go func() { _, _ = conn.Write([]byte("unread")) }()
		go func() { _, _ = client.Write(make([]byte, 10*maxAhead)) }()
		synctest.Wait()
		_ = conn.Close()
		synctest.Wait()
		if read != -1 {
			t.Error("a read goes on after the connection is closed")
		}
	})
}

// gRPC refuses a call with another content type before anything of podconfigd is asked, quotes the type,
// and keeps the refusal until it is written. A client that does not read gets rid of a few of them only.
func TestRefusedTypesThatNobodyReads(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	conn := d.dial(t)
	var header, out bytes.Buffer
	encoder, framer := hpack.NewEncoder(&header), http2.NewFramer(&out, nil)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/x/y"}, {":authority", "localhost"}, {"content-type", strings.Repeat("x", 60<<10)},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	out.WriteString(http2.ClientPreface)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	const frame = 16 << 10
	for i := range uint32(256) {
		block := header.Bytes()
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block[:frame], EndStream: true})
		for block = block[frame:]; err == nil && len(block) > 0; block = block[min(frame, len(block)):] {
			err = framer.WriteContinuation(2*i+1, len(block) <= frame, block[:min(frame, len(block))])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	all := out.Len()
	n, err := conn.Write(out.Bytes())
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
		t.Errorf("%d of %d bytes were read, %v", n, all, err)
	}
}
