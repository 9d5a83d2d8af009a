package conn

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
)

// StreamWriter returns what writes the parts of a response after its header was flushed. It writes each at
// once, as net/http does when it is flushed.
//
// For a chunk of more than its buffer of 4 KiB, net/http makes three system calls, and each can wake the
// client. Over HTTP/1.1 without TLS, StreamWriter makes one. net/http writes the last chunk.
func StreamWriter(w http.ResponseWriter, r *http.Request) io.Writer {
	c := From(r.Context())
	if c == nil || !c.http1 || !r.ProtoAtLeast(1, 1) {
		return w
	}
	if _, ok := c.Conn.(*tls.Conn); ok {
		return w
	}
	return &chunkWriter{conn: c}
}

// chunkWriter writes chunks of HTTP/1.1.
type chunkWriter struct {
	conn *Conn
	head []byte
	// parts are the head, the data and the end of a chunk. left has the parts that are not written.
	parts [3][]byte
	left  net.Buffers
}

var chunkEnd = []byte("\r\n")

// Write writes a chunk. If that fails, it closes the connection: what net/http writes after a part of a
// chunk would be data for the client.
func (w *chunkWriter) Write(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil // it would be the last chunk
	}
	w.head = append(strconv.AppendInt(w.head[:0], int64(len(data)), 16), chunkEnd...)
	w.parts = [...][]byte{w.head, data, chunkEnd}
	w.left = w.parts[:]
	defer clear(w.parts[:])
	_, err := w.conn.counted(func() (int64, error) { return w.left.WriteTo(w.conn.Conn) })
	if err != nil {
		w.conn.abort()
		return 0, err
	}
	return len(data), nil
}

// headerScanner finds the ends of request headers. A header ends at an empty line that is not
// its first line.
type headerScanner struct {
	// begun is true after a line that is not empty. line is true if the current line is not
	// empty.
	begun, line bool
	// ended is true if the last byte ended a header.
	ended bool
}

// next returns the number of bytes up to and including the first end of a header, or all.
func (s *headerScanner) next(data []byte) int {
	for i, b := range data {
		s.ended = b == '\n' && s.begun && !s.line
		switch {
		case s.ended:
			*s = headerScanner{ended: true}
			return i + 1
		case b == '\n':
			s.line = false
		case b != '\r':
			s.begun, s.line = true, true
		}
	}
	return len(data)
}
