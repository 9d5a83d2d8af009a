package file

import (
	"context"
	"errors"

	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
)

// Verdict is the verdict on a manifest, with its faults and warnings one by one.
type Verdict = manifests.Verdict

// Check returns the verdicts that a source with these options has at its first listing.
// It watches nothing, and does not wait for files that are being written. An empty path,
// for example from an unset variable, is an error, not the root directory. If as is not
// empty, the pods get the UIDs of files in that directory.
func Check(ctx context.Context, opts Options, as string) ([]Verdict, error) {
	if opts.Path == "" {
		return nil, errors.New("the path is empty")
	}
	path := follow.Clean(opts.Path)
	names, dir, err := follow.List(path)
	if err != nil {
		return nil, err
	}
	if as != "" {
		as = follow.Clean(as)
	}
	set := manifests.New(manifests.Options{Path: path, As: as, Decoder: opts.Decoder, Impatient: true})
	set.LookAll(ctx, dir, names)
	return set.Verdicts(), nil
}
