package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (s *Server) postResync(r *http.Request) error {
	values, err := parameters(r.URL.RawQuery, []string{"namespace", "name"})
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return s.resync(r.Context(), values["namespace"], values["name"])
}

// resync sends a SYNC for one pod to its subscribers. Its errors are those of
// Options.Resync, and a BadRequest of apierrors if no pod can have the name.
func (s *Server) resync(ctx context.Context, namespace, name string) error {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: required", p.parameter))
		}
		if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %q: %s", p.parameter, p.value, problems[0]))
		}
	}
	if s.opts.Resync == nil {
		return errors.New("this server sends no SYNC on request")
	}
	return s.opts.Resync(ctx, namespace, name)
}
