package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// A process is killed soon after each start, so that its tickers never tick. It still deletes
// what is too much.
func TestACrashLoopStaysBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newMemFS()
		var m *model
		for range 200 / testutil.Stride(4) {
			opts := options(files)
			opts.MaxBytes = 40 << 10
			p, recovered := start(t, opts)
			if m == nil {
				m = newModel(1, recovered)
			}
			if recovered.Revision != m.revision {
				t.Fatalf("%+v", recovered)
			}
			m.begin(recovered)
			for range 4 {
				p.append(m.set())
			}
			<-time.After(syncEvery / 2)
			files = killed(p, files)
		}
		size := 0
		for _, name := range segmentsOf(files) {
			size += len(*files.files[name])
		}
		if size > 60<<10 {
			t.Errorf("%d bytes in %d segments", size, len(segmentsOf(files)))
		}
	})
}
