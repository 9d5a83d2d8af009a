package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// scissors is a proxy between client and server. It cuts the first connection after some
// lines and bytes of the answer.
type scissors struct {
	lines, bytes int
	cut          atomic.Bool
}

func (s *scissors) run(t *testing.T, from, to string) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", from)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.pipe(t, client, to) })
		}
	})
	return func() { _ = l.Close(); wg.Wait() }
}

func (s *scissors) pipe(t *testing.T, client net.Conn, to string) {
	t.Helper()
	upstream, err := net.Dial("unix", to)
	if err != nil {
		t.Error(err)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(upstream, client); _ = upstream.Close() })
	defer wg.Wait()
	defer client.Close()
	if s.cut.Swap(true) {
		_, _ = io.Copy(client, upstream)
		return
	}
	answer := bufio.NewReader(upstream)
	for lines := 0; lines < s.lines; {
		line, err := answer.ReadBytes('\n')
		if _, werr := client.Write(line); werr != nil || err != nil {
			return
		}
		if len(line) > 0 && line[0] == '{' {
			lines++
		}
	}
	_, _ = io.CopyN(client, answer, int64(s.bytes))
}

// A subscriber that is disconnected after any line, or within the next one, and resumes,
// gets each update once.
func TestResumeAfterEveryCut(t *testing.T) {
	whole := []string{"ADD a b", "BOOKMARK synced", "UPDATE a", "ADD m0 m1 m2 m3 m4", "REMOVE b", "ADD last"}
	j := journal.New(journal.Options{Sources: []string{"file"}, MaxBytes: 1 << 30})
	addSized(j, view.PieceSize, config.ADD, "a", "b")
	dir := testutil.ShortDir(t)
	stop := serve(t, j, filepath.Join(dir, "s"))
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan struct{})
	go func() { // the rest comes after every subscriber could have read the state
		<-begun
		addSized(j, view.PieceSize, config.UPDATE, "a")
		addSized(j, view.PieceSize, config.ADD, "m0", "m1", "m2", "m3", "m4")
		addSized(j, view.PieceSize, config.REMOVE, "b")
		addSized(j, view.PieceSize, config.ADD, "last")
	}()
	// Each pod is so large that it has its own line: three lines for the state, and eight for the changes.
	var reads sync.WaitGroup
	var synced sync.WaitGroup
	for _, lines := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11} {
		for _, bytes := range []int{0, 1, 60} {
			synced.Add(1)
			reads.Go(func() {
				name := filepath.Join(dir, fmt.Sprintf("%d-%d", lines, bytes))
				cutter := &scissors{lines: lines, bytes: bytes}
				defer cutter.run(t, name, filepath.Join(dir, "s"))()
				got := collect(ctx, t, client.New(name), synced.Done)
				want := whole
				if lines == 2 { // the state had started and was not complete
					want = append([]string{"ADD a b", "BOOKMARK reset"}, whole...)
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("cut after %d lines and %d bytes: got\n%s", lines, bytes, strings.Join(got, "\n"))
				}
			})
		}
	}
	synced.Wait()
	close(begun)
	reads.Wait()
}

// collect returns the updates up to the pod "last".
func collect(ctx context.Context, t *testing.T, c *client.Client, synced func()) (got []string) {
	t.Helper()
	synced = sync.OnceFunc(synced)
	defer synced()
	for u, err := range c.Updates(ctx, client.Options{}) {
		if err != nil {
			t.Error(err)
			return got
		}
		if u.InitialSyncComplete {
			synced()
		}
		if got = append(got, show(u)); got[len(got)-1] == "ADD last" {
			return got
		}
	}
	return got
}
