// Package respond writes answers over HTTP: errors as metav1.Status, objects as JSON, and the parts of
// streams.
package respond

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/printable"
)

// Router takes handlers: an http.ServeMux, or a list of paths in a test.
type Router interface {
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}

// Error answers with a metav1.Status.
func Error(w http.ResponseWriter, code int, message string) {
	Status(w, apistatus.Status(code, message))
}

// MaxMessage is the maximum size of the message of an error. A message can quote the request, and stays in
// memory if the client does not read it.
const MaxMessage = 2 << 10

// Status answers with the status. It sets the header Retry-After if the details of the status
// have retryAfterSeconds.
func Status(w http.ResponseWriter, status *metav1.Status) {
	status.Message = printable.Cut(status.Message, MaxMessage)
	if status.Details != nil {
		status.Details.Name = printable.Cut(status.Details.Name, MaxMessage)
	}
	w.Header().Set("Content-Type", "application/json")
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // fails only if the client has gone
}

// Failure answers with the status of an error. An error without a status means that the daemon can't answer now.
func Failure(w http.ResponseWriter, err error) {
	status := apistatus.Status(http.StatusServiceUnavailable, err.Error())
	if known, ok := errors.AsType[*apierrors.StatusError](err); ok {
		status.Code, status.Reason, status.Details = known.ErrStatus.Code, known.ErrStatus.Reason, known.ErrStatus.Details
	}
	Status(w, status)
}

// BadRequest answers that the request is invalid.
func BadRequest(w http.ResponseWriter, err error) {
	Error(w, http.StatusBadRequest, err.Error())
}

// JSON answers with an object as JSON.
func JSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // as in Status
}

// Restored sets the header that names the sources whose pods are only restored.
func Restored(w http.ResponseWriter, sources []string) {
	if len(sources) > 0 {
		w.Header().Set(v1alpha1.RestoredHeader, strings.Join(sources, ","))
	}
}

// Within sets a deadline for writing the answer. The server resets it at the next request.
func Within(w http.ResponseWriter, timeout time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // the writer of a test may have no deadlines
}

// buffers are the buffers into which streams are encoded. A stream has one only while it writes.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is the maximum size of a buffer that is reused.
const maxBuffer = 64 << 10

// Line writes an object as JSON, with the end of the line.
func Line(w io.Writer, v any) error {
	return Write(w, func(to []byte) ([]byte, error) {
		line, err := json.Marshal(v)
		return append(append(to, line...), '\n'), err
	})
}

// Write writes the bytes that encode appends. A client that does not read holds only these bytes in
// memory, if encode releases the objects that it has encoded.
func Write(w io.Writer, encode func(to []byte) ([]byte, error)) error {
	buffer, _ := buffers.Get().(*[]byte) // the pool has nothing else
	data, err := encode((*buffer)[:0])
	if err == nil {
		_, err = w.Write(data)
	}
	if cap(data) <= maxBuffer {
		*buffer = data
		buffers.Put(buffer)
	}
	return err
}
