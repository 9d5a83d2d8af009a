package server

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/lookup"
	"github.com/podconfigd/podconfigd/pkg/server/internal/respond"
)

var lookupParameters = []string{"containerID", "podUID", "podIP", "pid", "cgroup", "startTime", "wait", "pods"}

// errNoLookup is the answer of a server without lookups.
var errNoLookup = errors.New("this server answers no lookups")

// lookup answers which pod an ID, an IP, a process or a cgroup belongs to.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request) {
	query, err := parseLookup(r.URL.RawQuery)
	if err != nil {
		respond.BadRequest(w, err)
		return
	}
	if s.opts.Lookup == nil {
		answerError(w, errNoLookup)
		return
	}
	if query.Wait > 0 {
		release, refusal := s.limits.waits.take(peerFrom(r.Context()))
		if refusal != nil {
			respond.Status(w, respond.TooMany(refusal))
			return
		}
		defer release()
		respond.Within(w, query.Wait+s.limits.listTimeout)
	}
	if query.Pods {
		release, refusal := s.limits.list(peerFrom(r.Context()))
		if refusal != nil {
			respond.Status(w, respond.TooMany(refusal))
			return
		}
		defer release()
	}
	answer, err := s.opts.Lookup.Find(r.Context(), query)
	if err != nil {
		answerError(w, err)
		return
	}
	respond.JSON(w, answer)
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
	fail := func(name string, err error) { errs = append(errs, fmt.Errorf("parameter %q: %w", name, err)) }
	if s := values["pid"]; s != "" {
		if q.PID, err = strconv.ParseInt(s, 10, 64); err != nil || q.PID == 0 {
			q.PID = 1 // it was given
			fail("pid", fmt.Errorf("%q is not a PID: expected a number from 1", s))
		}
	}
	if s := values["startTime"]; s != "" {
		if q.StartTime, err = strconv.ParseUint(s, 10, 64); err != nil {
			fail("startTime", fmt.Errorf("%q is not a start time: expected field 22 of /proc/PID/stat, in clock ticks", s))
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
	return q, errors.Join(append(errs, q.Validate())...)
}
