package conn

import (
	"net"
	"testing"
	"testing/synctest"
)

// While a client over HTTP/2 does not read, podconfigd reads no more than a little from it. It goes on
// when the client reads, and ends when the connection is closed.
func TestReadAheadOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		c := New(server, &net.UnixAddr{}, nil, func() {})
		go func() { _, _ = client.Write(make([]byte, 10*maxAhead)) }()
		read := 0
		go func() {
			for into := make([]byte, 3000); ; {
				n, err := c.Read(into)
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
			go func() { _, _ = c.Write([]byte("unread")) }()
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
		go func() { _, _ = c.Write([]byte("unread")) }()
		go func() { _, _ = client.Write(make([]byte, 10*maxAhead)) }()
		synctest.Wait()
		_ = c.Close()
		synctest.Wait()
		if read != -1 {
			t.Error("a read goes on after the connection is closed")
		}
	})
}
