package journal

import (
	"testing"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// An update of several pods that is no config operation has several revisions. It is not
// stored, but its revisions are. Subscribers resume from before it and from after it.
func TestARestartAfterAnEventOfSeveralPods(t *testing.T) {
	for _, op := range []config.PodOperation{config.HOUSEKEEPING, config.SYNC} {
		t.Run(op.String(), func(t *testing.T) {
			opts := store.Options{Dir: t.TempDir()}
			d := startDurable(t, opts)
			d.Subscribe("", Operations{config.SYNC: true}, Client{})
			d.Append(update(config.ADD, "a", "b"))
			d.settle(t)
			before := d.Revision()
			d.Append(update(op, "a", "b"))
			d.settle(t)
			after := d.Revision()
			if after != before+2 {
				t.Fatalf("revisions %d and %d", before, after)
			}
			d.Append(update(config.UPDATE, "a=2"))
			d.settle(t)
			d.stop()

			d = startDurable(t, opts)
			for _, revision := range []int64{before, after} {
				if err := d.Resumable(d.Instance(), revision, Operations{config.UPDATE: true}); err != nil {
					t.Errorf("resuming from %d: %v", revision, err)
				}
			}
		})
	}
}
