package server

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// gRPC refuses a call with another content type before anything of podconfigd is asked, quotes the type,
// and keeps the refusal until it is written. A client that does not read gets rid of a few of them only.
func TestRefusedTypesThatNobodyReads(t *testing.T) {
	t.Parallel() // it waits
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
	conn := serveJournal(t, journal.Options{}).dial(t)     // now: a client that sends nothing for seconds is cut off
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // short: nobody reads
	all := out.Len()
	n, err := conn.Write(out.Bytes())
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
		t.Errorf("%d of %d bytes were read, %v", n, all, err)
	}
}
