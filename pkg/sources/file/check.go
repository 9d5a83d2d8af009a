package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
	"github.com/podconfigd/podconfigd/pkg/sources/file/manifests"
)

// Verdict is the verdict on a manifest, with its faults and warnings one by one.
type Verdict = manifests.Verdict

// Judge returns the verdict on a manifest that is in no file. It has no UID, which would depend on the path.
func Judge(decoder *manifest.Decoder, name string, data []byte) Verdict {
	return manifests.Judge(decoder, name, data)
}

// CheckPattern returns an error if a pattern of [Options.Ignore] is wrong.
func CheckPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "/") {
		return fmt.Errorf("%q is not a pattern of file names: expected for example \"*.bak\"", pattern)
	}
	return nil
}

// Check returns the verdicts that a source with these options has at its first listing.
// It watches nothing, and does not wait for files that are being written. An empty path,
// for example from an unset variable, is an error, not the root directory. If as is not
// empty, the pods get the UIDs of files in that directory. The files whose names are in first were there before the others.
func Check(ctx context.Context, opts Options, as string, first []string) ([]Verdict, error) {
	if opts.Path == "" {
		return nil, errors.New("the path is empty")
	}
	place := follow.Clean(opts.Path)
	names, dir, err := follow.List(place)
	if info, missing := os.Lstat(place); err != nil && missing == nil && info.Mode()&fs.ModeSymlink != 0 {
		names, dir, err = []string{follow.Single}, false, nil // the verdict says where the link leads
	}
	if err != nil {
		return nil, err
	}
	set := manifests.New(manifests.Options{Path: place, As: as, Decoder: opts.Decoder, Ignore: opts.Ignore, Impatient: true})
	if first = slices.DeleteFunc(slices.Clone(first), func(name string) bool { return !slices.Contains(names, name) }); len(first) > 0 {
		set.LookAll(ctx, dir, first)
	}
	set.LookAll(ctx, dir, names)
	return set.Verdicts(), nil
}
