package file

import (
	"context"
	"errors"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

// Check returns the verdicts that a source with these options would have at its
// first listing. It watches nothing and waits for no one who is writing. A path that is
// empty, as from a variable that is not set, is not taken for the root directory.
func Check(ctx context.Context, opts Options) ([]v1alpha1.Manifest, error) {
	if opts.Path == "" {
		return nil, errors.New("the path is empty")
	}
	opts.Registerer, opts.openWatcher = nil, func() (watcher, error) { return idle{}, nil }
	s := New(opts)
	if _, _, err := readPath(s.path); err != nil {
		return nil, err
	}
	s.looker.impatient = true
	s.examine(ctx, s.list(ctx))
	return s.Status().File.Manifests, nil
}
