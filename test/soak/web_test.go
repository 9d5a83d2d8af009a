package soak

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// web serves a PodList.
type web struct {
	*httptest.Server

	mu   sync.Mutex
	code int
	body string
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{code: http.StatusOK}
	w.serve(http.StatusOK)
	w.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		out.WriteHeader(w.code)
		_, _ = io.WriteString(out, w.body)
	}))
	t.Cleanup(w.Close)
	return w
}

// serve changes the answer.
func (w *web) serve(code int, items ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code, w.body = code, `{"apiVersion":"v1","kind":"PodList","items":[`+strings.Join(items, ",")+`]}`
}
