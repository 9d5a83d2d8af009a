package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podconfigd/podconfigd/internal/apistatus"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/syncloop"
)

// release merges the held set of a source. Its error is for clients.
func (d *Daemon) release(ctx context.Context, source string, most *int) error {
	return failure(d.podConfig.Release(ctx, source, most))
}

// resync sends a SYNC for the pods with the name. Its error is for clients.
func (d *Daemon) resync(ctx context.Context, namespace, name string) error {
	return failure(d.loop.Resync(ctx, namespace, name))
}

// failure returns the error with the status that clients get, and with what to do. An error without a status means that
// the daemon can't answer now.
func failure(err error) error {
	if more, ok := errors.AsType[*config.RemovesMoreError](err); ok {
		return apistatus.New(http.StatusConflict,
			fmt.Sprintf("%v: look at what is missing, then run %q", more, mend.ReleaseCommand(more.Source, more.Removes)))
	}
	if soon, ok := errors.AsType[*syncloop.TooSoonError](err); ok {
		return apierrors.NewTooManyRequests(soon.Error(), int(math.Ceil(soon.Wait.Seconds())))
	}
	switch {
	case errors.Is(err, config.ErrNoSource):
		return apistatus.New(http.StatusNotFound, err.Error()+`: "podconfigctl status" lists them`)
	case errors.Is(err, config.ErrNotHeld), errors.Is(err, syncloop.ErrNoPod):
		return apistatus.New(http.StatusNotFound, err.Error())
	}
	return err
}
