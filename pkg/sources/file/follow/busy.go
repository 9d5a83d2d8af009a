package follow

import "time"

// Busy returns how long Changes and its caller have been working on a change. Any goroutine can
// call it.
func (f *Follower) Busy() time.Duration {
	since := f.busySince.Load()
	if since == nil {
		return 0
	}
	return time.Since(*since)
}

// Relist makes Changes list the path within a poll period, or as soon as the file system answers.
// Any goroutine can call it.
func (f *Follower) Relist() { f.relist.Store(true) }

// Done ends the work on a change for Busy. The caller has read the files, and waits for something
// else.
func (f *Follower) Done() { f.busySince.Store(nil) }

func (f *Follower) work() {
	f.began = time.Now()
	f.busySince.Store(new(f.began))
}
