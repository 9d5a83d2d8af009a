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
		s := New(g, 10)
		fmt.Fprintln(s, "stuck")
		synctest.Wait()
		for i := range 50 {
			fmt.Fprintf(s, "line %d\n", i)
		}
		if s.Dropped() != 40 {
			t.Errorf("%d of 50 lines were dropped, want 40", s.Dropped())
		}
		close(g.open)
		s.Close(time.Second)
		if lines := strings.Split(strings.TrimSpace(g.String()), "\n"); len(lines) != 11 || lines[1] != "line 0" || lines[10] != "line 9" {
			t.Errorf("what got through: %q", lines)
		}
	})
}

func TestABrokenStreamBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{}), broken: errors.New("broken pipe")}
		close(g.open)
		s := New(g, 1000)
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
		s := New(g, 100)
		fmt.Fprintln(s, "line")
		start := time.Now()
		s.Close(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		close(g.open)
	})
}
