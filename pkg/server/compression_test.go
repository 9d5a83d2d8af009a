package server

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A program that has this package and gzip sends a client that compresses its request as much as
// any other.
func TestCompressedRequests(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	const pods = 8
	for i := range pods {
		d.add(fmt.Sprint(i), 64<<10)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	stream, err := podconfigd.NewPodConfigClient(d.grpc(t, d.socket)).Watch(ctx, &podconfigd.WatchRequest{}, grpc.UseCompressor(gzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	for got := 0; got < pods; {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("after %d of %d pods: %v", got, pods, err)
		}
		got += len(m.GetPods())
	}
}
