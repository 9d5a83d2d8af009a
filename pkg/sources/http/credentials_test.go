package http

import (
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Credentials in a FIFO neither block the source nor its end.
func TestCredentialsAreInRegularFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	target := &url.URL{Scheme: "https", Host: "127.0.0.1:1"}
	for name, opts := range map[string]Options{
		"CA": {CAFile: fifo}, "certificate": {CertFile: fifo}, "key": {KeyFile: fifo}, "token": {BearerTokenFile: fifo},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newTransport(target, opts).client()
			if err == nil || !strings.Contains(err.Error(), fifo+": expected a regular file") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
