package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/pkg/server/internal/servertest"
)

// The body gives gRPC one message more than it has taken.
func TestCallBody(t *testing.T) {
	var body bytes.Buffer
	for i := range 3 {
		body.Write(servertest.Message([]byte(fmt.Sprintf("message %d", i))))
	}
	served := newCallBody(io.NopCloser(&body))
	size := len(servertest.Message([]byte("message 0")))
	read := make(chan int, 100)
	done := make(chan error)
	go func() {
		buffer := make([]byte, 3)
		for {
			n, err := served.Read(buffer)
			if n > 0 {
				read <- n
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	total := 0
	upTo := func(want int) {
		t.Helper()
		for total < want {
			total += <-read
		}
		if total != want {
			t.Fatalf("%d bytes were read, want %d", total, want)
		}
	}
	upTo(size)
	served.take()
	upTo(2 * size)
	served.take()
	upTo(3 * size)
	served.take() // the end
	if err := <-done; !errors.Is(err, io.EOF) {
		t.Error(err)
	}

	large := newCallBody(io.NopCloser(bytes.NewReader(servertest.Message(make([]byte, conn.MaxHeader+1)))))
	if data, err := io.ReadAll(large); err == nil || len(data) != prefixSize || !strings.Contains(err.Error(), "65537 bytes") {
		t.Errorf("a message that is too large: %d bytes, %v", len(data), err)
	}

	closing := newCallBody(io.NopCloser(bytes.NewReader(append(servertest.Message(nil), servertest.Message(nil)...))))
	go func() { _, err := io.ReadAll(closing); done <- err }()
	if err := closing.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after Close: %v", err)
	}
}
