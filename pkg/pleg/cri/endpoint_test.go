package cri_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/podconfigd/podconfigd/internal/testutil"
	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
)

// The socket of another server is named, and what to do.
func TestASocketWithoutCRI(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		<-served
	}()
	r, err := cri.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := "the server at " + path + " has no CRI v1: name the CRI socket of the runtime with --container-runtime-endpoint"
	if _, err := r.Pods(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("no %q in: %v", want, err)
	}
}
