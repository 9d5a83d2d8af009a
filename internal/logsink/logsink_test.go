package logsink

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/podconfigd/podconfigd/test/testutil"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a stream that is stuck until it is opened, or broken.
type gate struct {
	testutil.Buffer
	open   chan struct{}
	broken error
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	if g.broken != nil {
		return 0, g.broken
	}
	return g.Buffer.Write(p)
}

func TestAStuckStreamBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		var s *Sink
		s = New(g, 100, func(lines int64) { fmt.Fprintf(s, "%d dropped\n", lines) })
		for i := range 50 {
			fmt.Fprintf(s, "line %04d\n", i)
		}
		synctest.Wait()
		if s.Dropped() < 38 || s.Dropped() > 40 {
			t.Errorf("%d of 50 lines of 10 bytes were dropped, want about 39", s.Dropped())
		}
		dropped := s.Dropped()
		close(g.open)
		s.Close(time.Second)
		lines := strings.Split(strings.TrimSpace(g.String()), "\n")
		if lines[0] != "line 0000" || lines[1] != "line 0001" || len(lines) != 51-int(dropped) {
			t.Errorf("what got through: %q", lines)
		}
	})
}

func TestTheNumberDroppedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		var s *Sink
		s = New(g, 40, func(lines int64) { fmt.Fprintf(s, "%d dropped\n", lines) })
		for i := range 20 {
			fmt.Fprintf(s, "line %04d\n", i)
		}
		synctest.Wait()
		want := fmt.Sprintf("%d dropped\n", s.Dropped())
		close(g.open)
		synctest.Wait()
		s.Close(time.Second)
		if !strings.Contains(g.String(), want) {
			t.Errorf("want %q in %q", want, g.String())
		}
	})
}

func TestABrokenStreamBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{}), broken: errors.New("broken pipe")}
		close(g.open)
		s := New(g, 1000, func(int64) { t.Error("a line got through") })
		for range 20 {
			fmt.Fprintln(s, "line")
		}
		s.Close(time.Second)
		if s.Dropped() != 20 {
			t.Errorf("%d lines were dropped, want 20", s.Dropped())
		}
	})
}

func TestCloseDoesNotWaitForAStuckStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		s := New(g, 100, func(int64) {})
		fmt.Fprintln(s, "line")
		start := time.Now()
		s.Close(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		close(g.open)
	})
}
