package server

import (
	"context"
	"log"
	"strings"

	"k8s.io/klog/v2"
)

// klogWriter logs the errors of net/http about single connections.
type klogWriter struct{ logger klog.Logger }

// Write logs a line.
func (w klogWriter) Write(line []byte) (int, error) {
	w.logger.V(2).Info("HTTP server", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}

func klogErrors(ctx context.Context) *log.Logger {
	return log.New(klogWriter{klog.FromContext(ctx)}, "", 0)
}
