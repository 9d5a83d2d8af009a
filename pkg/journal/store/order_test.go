package store

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

// A failure while a set is being shown does not let a later set pass it.
func TestAFailureWhileASetIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newMemFS()
		p, recovered := start(t, options(fs))
		defer p.end()
		m := newModel(1, recovered)
		p.append(m.set())

		var shown []int
		hold := make(chan struct{})
		p.add(m.set(), func(journal.Commit) {
			<-hold
			shown = append(shown, 1)
		})
		synctest.Wait()
		fs.setFault(func(op, _ string, size int) (int, error) {
			if op == "sync" {
				return 0, errors.New("no")
			}
			return size, nil
		})
		<-time.After(2 * syncEvery)
		done := make(chan struct{})
		p.add(m.set(), func(journal.Commit) {
			shown = append(shown, 2)
			close(done)
		})
		synctest.Wait()
		close(hold)
		<-done
		synctest.Wait()
		if !slices.Equal(shown, []int{1, 2}) {
			t.Errorf("shown: %v", shown)
		}
	})
}
