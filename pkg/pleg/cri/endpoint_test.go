package cri_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
	"github.com/podconfigd/podconfigd/test/testutil"
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

// named is a runtime of which only the name is known.
type named struct {
	runtimeapi.UnimplementedRuntimeServiceServer

	name string
}

func (n *named) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: n.name}, nil
}

func (n *named) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return nil, status.Error(codes.NotFound, "")
}

// Another runtime can get the socket. The name is part of the IDs of containers, so it is that of the runtime
// which answers.
func TestAnotherRuntimeOnTheSocket(t *testing.T) {
	path := filepath.Join(testutil.ShortDir(t), "s")
	r, err := cri.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, name := range []string{"containerd", "cri-o"} {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		runtimeapi.RegisterRuntimeServiceServer(server, &named{name: name})
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		testutil.Until(t, "an answer of "+name, func() bool {
			_, got, err := r.Record(t.Context(), []string{"id"}, nil)
			if err == nil && got != name {
				t.Errorf("the name is %s, want %s", got, name)
			}
			return err == nil
		})
		server.Stop()
		<-served
	}
}
