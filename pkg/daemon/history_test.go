package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/history"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// fullDisk is a file system on which no file can be created.
type fullDisk struct{ store.FS }

func (fullDisk) Create(string) (store.Appender, error) {
	return nil, errors.New("no space left on device")
}

// While updates are not stored, the history ends with a gap that says so.
func TestHistoryWhileNothingIsStored(t *testing.T) {
	dir := t.TempDir()
	log, recovered, err := store.Open(store.Options{Dir: dir, Node: "node1", FS: fullDisk{store.OS}})
	if err != nil {
		t.Fatal(err)
	}
	s := &state{dir: dir, log: log}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	log.Begin(recovered.Base)
	go func() { done <- s.log.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	shown := make(chan journal.Commit, 1)
	first := recovered.Reserved + 1
	log.Append(&journal.Set{First: first, Revision: first, After: recovered.Base}, func(c journal.Commit) { shown <- c })
	if c := <-shown; c.Stored {
		t.Fatal("it was stored")
	}
	var records []*v1alpha1.HistoryRecord
	for r, err := range s.history()(history.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if len(records) != 1 || !strings.HasPrefix(records[0].Gap, "updates are not stored: ") || !strings.Contains(records[0].Gap, "no space left on device") || records[0].Time == nil {
		t.Errorf("%+v", records)
	}
	if (&state{}).history() != nil {
		t.Error("without a state directory, there is a history")
	}
}
