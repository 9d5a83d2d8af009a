package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

var lookupParameters = []string{"containerID", "podUID", "podIP", "pid", "cgroup", "startTime", "wait", "pods"}

// errNoLookup is the answer of a server without lookups.
var errNoLookup = errors.New("this server answers no lookups")

// errStopping is the answer to a request that the end of the server interrupts.
var errStopping = errors.New("podconfigd is stopping")

// lookup answers which pod an ID, an IP, a process or a cgroup belongs to.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request, scope *view.Scope) {
	query, err := parseLookup(r.URL.RawQuery)
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	if query.Wait > 0 {
		respond.Within(w, query.Wait+s.limits.listTimeout)
	}
	release, err := s.admit(r.Context(), query)
	if err != nil {
		answerError(w, err)
		return
	}
	defer release()
	answer, err := s.opts.Lookup.Find(r.Context(), scope, query)
	if err != nil {
		if r.Context().Err() != nil {
			err = errStopping
		}
		answerError(w, err)
		return
	}
	respond.JSON(w, answer)
}

// admit counts a query of a client, if it waits or asks for pods, until release is called
// after the answer. Its error has a status.
func (s *Server) admit(ctx context.Context, query *lookup.Query) (release func(), err error) {
	if s.opts.Lookup == nil {
		return nil, errNoLookup
	}
	var taken []func()
	release = func() {
		for _, giveBack := range taken {
			giveBack()
		}
	}
	places, peer := s.places(ctx)
	for _, c := range []struct {
		counts bool
		places *counter
	}{{query.Wait > 0, &places.waits}, {query.Pods, &places.lists}} {
		if !c.counts {
			continue
		}
		giveBack, refusal := c.places.take(peer)
		if refusal != nil {
			release()
			return nil, &apierrors.StatusError{ErrStatus: *respond.TooMany(refusal)}
		}
		taken = append(taken, giveBack)
	}
	return release, nil
}

// parseLookup parses the parameters of /v1alpha1/lookup. Its error names every invalid
// parameter.
func parseLookup(raw string) (*lookup.Query, error) {
	values, err := parameters(raw, lookupParameters)
	if err != nil {
		return nil, err
	}
	q := &lookup.Query{
		ContainerID: values["containerID"], PodUID: types.UID(values["podUID"]), PodIP: values["podIP"], Cgroup: values["cgroup"],
	}
	var errs []error
	fail := func(name string, err error) {
		if name != "" {
			err = fmt.Errorf("parameter %q: %w", name, err)
		}
		errs = append(errs, err)
	}
	if s := values["pid"]; s != "" {
		if q.PID, err = strconv.ParseInt(s, 10, 64); err != nil || q.PID == 0 {
			q.PID = 1 // it is given
			fail("pid", fmt.Errorf("%q is not a PID: expected 1 to %d", s, math.MaxInt32))
		}
	}
	if s := values["startTime"]; s != "" {
		if q.StartTime, err = strconv.ParseUint(s, 10, 64); err != nil {
			fail("startTime", fmt.Errorf("%q is not a start time: expected field 22 of /proc/PID/stat", s))
		}
	}
	if s := values["wait"]; s != "" {
		if q.Wait, err = time.ParseDuration(s); err != nil {
			fail("wait", fmt.Errorf("%q is not a wait: expected 0s to %v", s, lookup.MaxWait))
		}
	}
	if q.Pods, err = parseBool(values["pods"], false); err != nil {
		fail("pods", err)
	}
	for _, f := range q.Validate() {
		fail(f.Name, f.Err)
	}
	return q, errors.Join(errs...)
}
