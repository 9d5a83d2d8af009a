package file

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/pkg/config"
)

const (
	// stuckAfter is how long an access to the files takes before the source counts as degraded.
	stuckAfter = 10 * time.Second
	// stopGrace is how long Run waits for an access to the files after its context is done.
	stopGrace = 500 * time.Millisecond
)

// Run sends the set of pods at each change until the context is done, and returns
// its cause.
//
// A system call on a file system that does not answer, for example that of a server that is gone,
// can't be interrupted. Then the source is degraded, and Run returns without its goroutine. The
// goroutine ends when the file system answers. It sends nothing any more.
func (s *Source) Run(ctx context.Context, sets chan<- config.SourceSet) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("source", s.name, "path", s.path))
	done := make(chan error, 1)
	go func() { done <- s.follow(ctx, sets) }()
	look := time.NewTicker(max(s.stuckAfter/4, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-look.C:
			if took := s.follower.Busy(); took >= s.stuckAfter && s.stuck.CompareAndSwap(false, true) {
				s.board.Failed(ctx, fmt.Errorf("reading the path takes longer than %v: the file system may not answer", s.stuckAfter),
					"Failed to read the manifest path, keeping its last pods")
				s.follower.Relist()
			}
		case <-ctx.Done():
			return s.abandon(ctx, done)
		}
	}
}

// abandon waits for the end of follow, but not for long.
func (s *Source) abandon(ctx context.Context, done <-chan error) error {
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		klog.FromContext(ctx).Info("Stopped reading the manifest path, although its file system does not answer")
		return context.Cause(ctx)
	}
}
