package file

import (
	"context"
	"errors"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
)

// Check returns the verdicts that a source with these options would have at its
// first listing. It watches nothing and waits for no one who is writing. A path that is
// empty, as from a variable that is not set, is not taken for the root directory.
func Check(ctx context.Context, opts Options) ([]v1alpha1.Manifest, error) {
	if opts.Path == "" {
		return nil, errors.New("the path is empty")
	}
	path := follow.Clean(opts.Path)
	names, dir, err := follow.List(path)
	if err != nil {
		return nil, err
	}
	board := newBoard(path, newMetrics(nil))
	set := manifests.New(manifests.Options{Path: path, Decoder: opts.Decoder, Judge: board.judge, Impatient: true})
	set.LookAll(ctx, dir, names)
	return board.all(), nil
}
