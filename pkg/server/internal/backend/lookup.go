package backend

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// ErrNoLookup is the answer of a server without lookups.
var ErrNoLookup = errors.New("this server answers no lookups")

// ErrStopping is the answer to a request that the end of the server interrupts.
var ErrStopping = errors.New("podconfigd is stopping")

// Admit counts a query of a client, if it waits or asks for pods, until release is called
// after the answer. Its error has a status.
func (b *Backend) Admit(ctx context.Context, query *lookup.Query) (release func(), err error) {
	if b.Lookup == nil {
		return nil, ErrNoLookup
	}
	var taken []func()
	release = func() {
		for _, giveBack := range taken {
			giveBack()
		}
	}
	for _, c := range []struct {
		counts bool
		take   func(context.Context) (func(), error)
	}{{query.Wait > 0, b.Limits.Wait}, {query.Pods, b.Limits.List}} {
		if !c.counts {
			continue
		}
		giveBack, refusal := c.take(ctx)
		if refusal != nil {
			release()
			return nil, &apierrors.StatusError{ErrStatus: *respond.TooMany(refusal)}
		}
		taken = append(taken, giveBack)
	}
	return release, nil
}
