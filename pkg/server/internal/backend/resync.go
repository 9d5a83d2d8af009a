package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

// ResyncPod sends a SYNC for one pod to its subscribers. Its errors are those of
// Options.Resync, and a BadRequest of apierrors if no pod can have the name.
func (b *Backend) ResyncPod(ctx context.Context, namespace, name string) error {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: required", p.parameter))
		}
		if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %q: %s", p.parameter, p.value, problems[0]))
		}
	}
	if b.Resync == nil {
		return errors.New("this server sends no SYNC on request")
	}
	scope, err := b.Scope(ctx)
	if err != nil {
		return err
	}
	sees := scope.Sees(types.NamespacedName{Namespace: namespace, Name: name})
	if err := scope.Err(); err != nil {
		return err
	}
	if !sees { // as for a pod that is not there
		return &apierrors.StatusError{ErrStatus: *respond.StatusOf(http.StatusNotFound, metav1.StatusReasonNotFound,
			fmt.Sprintf("resyncing pod %s/%s: no such pod", namespace, name))}
	}
	return b.Resync(ctx, namespace, name)
}
