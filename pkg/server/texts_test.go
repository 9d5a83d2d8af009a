package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	podconfigd "github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/server/conn"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// A User-Agent is cut, over HTTP, the Kubernetes API and gRPC, at the end of a character.
func TestUserAgentsAreCut(t *testing.T) {
	d := serveJournal(t, journal.Options{})
	d.add("a", 1)
	long := strings.Repeat("é", 25<<10) // 50 KiB
	for _, path := range []string{"/v1alpha1/updates", "/api/v1/pods?watch=true"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "x"+long)
		resp, err := d.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	conn, err := grpc.NewClient("unix:"+d.socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(strings.Repeat("x", 50<<10)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := podconfigd.NewPodConfigClient(conn).Watch(ctx, &podconfigd.WatchRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, body := d.get(t, "/v1alpha1/status")
	var status v1alpha1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Subscribers) != 3 {
		t.Fatalf("%d subscribers", len(status.Subscribers))
	}
	for _, s := range status.Subscribers {
		if agent := s.UserAgent; len(agent) < longestText || len(agent) > longestText+len("…") || !utf8.ValidString(agent) || !strings.HasSuffix(agent, "…") {
			t.Errorf("%d bytes: %q", len(agent), agent)
		}
	}
}

// Clients that ask for the status at the same time share it, over a socket.
func TestTheStatusIsMadeOnce(t *testing.T) {
	var made atomic.Int32
	begun, proceed := make(chan struct{}, 1), make(chan struct{})
	d := serveWithLimits(t, journal.Options{}, conn.Limits{ListsPerPeer: 64}, func(o *Options) {
		status := o.Status
		o.Status = func() v1alpha1.Status {
			if made.Add(1) == 1 {
				begun <- struct{}{}
				<-proceed
			}
			return status()
		}
	})
	var requests sync.WaitGroup
	get := func() {
		requests.Go(func() {
			if code, body := d.get(t, "/v1alpha1/status"); code != http.StatusOK || !strings.Contains(body, `"instance"`) {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	get()
	<-begun
	const others = 40
	for range others {
		get()
	}
	testutil.Until(t, "all have come", func() bool { return d.limits.Sockets.Lists.InUse() == 1+others })
	close(proceed)
	requests.Wait()
	if n := made.Load(); n > others/2 { // some may come after the second is begun
		t.Errorf("%d requests, %d answers", 1+others, n)
	}
}
