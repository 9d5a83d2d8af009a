package owners

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/metric"
)

// maxNotes is the maximum number of notes in the status.
const maxNotes = 10

// Status returns what is known about the owners of the present pods.
func (r *Resolver) Status() *v1alpha1.OwnersStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := new(v1alpha1.OwnersStatus)
	notes := make(map[string]bool)
	for _, o := range r.owners {
		switch {
		case !r.present(o):
		case o.known:
			s.Known++
		default:
			s.Waiting++
			s.LastError = r.failing
			notes[o.problem], notes[r.kinds[o.kindRef].problem] = true, true
		}
	}
	delete(notes, "")
	s.Notes = slices.Sorted(maps.Keys(notes))
	if n := len(s.Notes) - maxNotes; n > 0 {
		s.Notes, s.NotesOmitted = s.Notes[:maxNotes], n
	}
	return s
}

// The results of requests, in the metric.
const (
	resultOK        = "ok"
	resultForbidden = "forbidden"
	resultNotFound  = "not_found"
	resultError     = "error"
)

func newRequests(reg prometheus.Registerer) *prometheus.CounterVec {
	return metric.In(reg, "owners").CounterVec("requests_total",
		"Number of times that the apiserver was asked for the owner of a pod, by result: ok, forbidden, not_found or error.",
		"result", resultOK, resultForbidden, resultNotFound, resultError)
}
