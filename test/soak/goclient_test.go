package soak

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/soak/history"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// goClient follows the stream with pkg/client, which resumes by itself.
type goClient struct{ *subscriber }

func (s goClient) run(ctx context.Context, socket string) {
	s.connect()
	for u, err := range client.New(socket).Updates(ctx, client.Options{}) {
		if err != nil {
			s.t.Errorf("%s: %v", s.history.Subscriber, err)
			return
		}
		m := &history.Message{
			Instance: u.Instance, Revision: u.Revision, Op: string(u.Op), Source: u.Source,
			Synced: u.InitialSyncComplete, Reset: u.Reset, Continues: u.Continues, Pods: recordsOf(u.Pods),
		}
		if u.Time != nil {
			m.Time = *u.Time
		}
		s.take(ctx, m)
	}
}

func recordsOf(pods []*v1.Pod) (records []history.Pod) {
	for _, p := range pods {
		records = append(records, recordOf(p))
	}
	return records
}

// serve returns a socket that leads to the daemon's. The cutter ends its connections.
func (c *cutter) serve(ctx context.Context, t *testing.T, wg *sync.WaitGroup) string {
	t.Helper()
	path := filepath.Join(testutil.ShortDir(t), "s")
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.forward(ctx, conn) })
		}
	})
	return path
}

// forward connects a client to the daemon until one of them goes.
func (c *cutter) forward(ctx context.Context, client net.Conn) {
	defer client.Close()
	daemon, err := c.dial(ctx, "", "")
	if err != nil {
		return
	}
	defer daemon.Close()
	stop := context.AfterFunc(ctx, func() { client.Close(); daemon.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(daemon, client)
		daemon.Close()
	})
	_, _ = io.Copy(client, daemon)
	client.Close()
	wg.Wait()
}
