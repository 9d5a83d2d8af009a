package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
)

func (s *Server) postRelease(r *http.Request) error {
	values, err := parameters(r.URL.RawQuery, []string{"source"})
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return s.release(r.Context(), values["source"])
}

// release merges the held set of a source. Its errors are those of Options.Release, and a
// BadRequest of apierrors if no source can have the name.
func (s *Server) release(ctx context.Context, name string) error {
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
	return s.opts.Release(ctx, source)
}
