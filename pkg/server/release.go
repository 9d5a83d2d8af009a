package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
)

func (s *Server) postRelease(r *http.Request) error {
	values, err := parameters(r.URL.RawQuery, []string{"source", "removes"})
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var most *int
	if text, ok := values["removes"]; ok {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: expected a number of pods, 0 to %d, got %q", "removes", math.MaxInt32, text))
		}
		most = new(int(n))
	}
	return s.release(r.Context(), values["source"], most)
}

// release merges the held set of a source. Its errors are those of Options.Release, and a
// BadRequest of apierrors if no source can have the name. most is the number of pods that the set may remove;
// nil for any.
func (s *Server) release(ctx context.Context, name string, most *int) error {
	source, err := config.ParseSource(name)
	if err == nil && source == "" {
		err = errors.New("required")
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %v", "source", err))
	}
	if s.opts.Release == nil {
		return errors.New("this server holds no sets")
	}
	scope, err := s.scope(ctx)
	if err != nil {
		return err
	}
	if scope.Grant().AtLeast(source, "").Level() != access.Full {
		return s.deny(ctx, scope, "release the set of source "+source, "the access rules do not show all of its pods to it in full")
	}
	return s.opts.Release(ctx, source, most)
}
