package backend

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// ReleaseSource merges the held set of a source. Its errors are those of Options.Release, and a
// BadRequest of apierrors if no source can have the name. most is the number of pods that the set may remove;
// nil for any.
func (b *Backend) ReleaseSource(ctx context.Context, name string, most *int) error {
	source, err := config.ParseSource(name)
	if err == nil && source == "" {
		err = errors.New("required")
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %v", "source", err))
	}
	if b.Release == nil {
		return errors.New("this server holds no sets")
	}
	scope, err := b.Scope(ctx)
	if err != nil {
		return err
	}
	if scope.Grant().AtLeast(source, "").Level() != access.Full {
		return b.deny(ctx, scope, "release the set of source "+source, "the access rules do not show all of its pods to it in full")
	}
	return b.Release(ctx, source, most)
}
