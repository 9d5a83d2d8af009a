package file

import (
	"context"

	"github.com/podconfigd/podconfigd/pkg/sources"
)

// Check returns the verdicts that a source with these options would have at its
// first listing. It watches nothing and waits for no one who is writing.
func Check(ctx context.Context, opts Options) ([]sources.Verdict, error) {
	opts.Registerer, opts.openWatcher = nil, func() (watcher, error) { return idle{}, nil }
	s := New(opts)
	if _, _, err := readPath(s.path); err != nil {
		return nil, err
	}
	s.looker.impatient = true
	s.examine(ctx, s.list(ctx))
	return s.Status().Manifests, nil
}
