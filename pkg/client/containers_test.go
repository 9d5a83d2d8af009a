package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// answers serves one answer to each request: a status with a message, or the lines of a stream. It returns where, and the positions
// from which the requests resume. After the last answer, it calls end.
func answers(t *testing.T, end func(), all ...string) (socket string, positions func() []string) {
	t.Helper()
	socket = filepath.Join(testutil.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []string
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := len(got)
		got = append(got, r.FormValue("instance")+r.FormValue("since"))
		mu.Unlock()
		if n >= len(all) {
			end()
			return
		}
		var code int
		if n, _ := fmt.Sscan(all[n], &code); n > 0 {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","message":"refused"}`)
			return
		}
		_, _ = io.WriteString(w, all[n])
	})}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return socket, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// A stream that was accepted goes on after what may pass, also without a line so far. What no retry helps against ends it.
func TestRefusalsOfAStream(t *testing.T) {
	const state = `{"instance":"i","revision":1,"op":"BOOKMARK","initialSyncComplete":true}`
	for _, c := range []struct {
		since   int64
		answers string
		ends    bool
	}{
		{0, "429", true},
		{7, "503", true},
		{0, state + " 429 503 401", false},
		{7, " 429 503 401", false},
		{0, state + " 501", true},
		{7, " 501", true},
		{0, state + " 400", true},
	} {
		for _, stream := range []string{"updates", "containers"} {
			t.Run(fmt.Sprint(stream, c.since, " ", c.answers), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				socket, _ := answers(t, cancel, strings.Split(c.answers, " ")...)
				var refused *client.RefusedError
				if stream == "updates" {
					for _, err := range client.New(socket).Updates(ctx, client.Options{Instance: "i", Since: c.since}) {
						errors.As(err, &refused)
					}
				} else {
					for _, err := range client.New(socket).WatchContainers(ctx, client.ContainerOptions{Instance: "i", Since: c.since}) {
						errors.As(err, &refused)
					}
				}
				if (refused != nil) != c.ends {
					t.Errorf("it ended with %v", refused)
				}
			})
		}
	}
}

// After a connection that was lost in the first state, or after a reset, the containers start again. Later, they resume from the last
// revision.
func TestWatchContainersResumes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket, positions := answers(t, cancel,
		`{"instance":"i","op":"ADD","container":{"id":"a"}}`,
		`{"instance":"i","op":"ADD","container":{"id":"b"}}{"instance":"i","revision":5,"op":"BOOKMARK","initialSyncComplete":true}`,
		`{"instance":"i","revision":6,"op":"UPDATE","container":{"id":"b"}}`,
		`{"instance":"i","op":"BOOKMARK","reset":true,"message":"behind"}`,
		`{"instance":"i","op":"ADD","container":{"id":"b"}}{"instance":"i","revision":8,"op":"BOOKMARK","initialSyncComplete":true}`)
	var lines []string
	for u, err := range client.New(socket).WatchContainers(ctx, client.ContainerOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		line := string(u.Op)
		if u.Container != nil {
			line += " " + u.Container.ID
		}
		lines = append(lines, strings.TrimSpace(line+" "+u.Message))
	}
	const lost = "BOOKMARK the connection was lost before the first state was complete; ADD b; BOOKMARK"
	want := "ADD a; " + lost + "; UPDATE b; BOOKMARK behind; " + lost
	if got := strings.Join(lines, "; "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := strings.Join(positions(), " "); got != "  i5 i6  i8" {
		t.Errorf("resumed from %q", got)
	}
}
