package journal

import "context"

// These are for the tests with a store, which imports this package.

// Await is await.
func (j *Journal) Await(revision int64) { j.await(revision) }

// Begin is begin.
func (j *Journal) Begin() { j.begin() }

// ReserveWith reserves revisions with the function.
func (j *Journal) ReserveWith(ctx context.Context, reserve func(int64) error) {
	j.reserve = reserve
	j.reserveFrom(ctx, 0)
}

// Taken returns the newest revision of the intake, which may not be visible yet.
func (j *Journal) Taken() int64 {
	j.intake.mu.Lock()
	defer j.intake.mu.Unlock()
	return j.intake.head
}

// Visible returns the newest revision, a channel that is closed when there is more, and the end of the newest gap.
func (j *Journal) Visible() (head int64, changed <-chan struct{}, gapEnd int64) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if n := len(j.gaps); n > 0 {
		gapEnd = j.gaps[n-1].before
	}
	return j.table.revision, j.changed, gapEnd
}

// Sets returns the sets in the ring.
func (j *Journal) Sets() (sets []*Set) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	for i := range j.ring.len() {
		sets = append(sets, j.ring.at(i))
	}
	return sets
}
