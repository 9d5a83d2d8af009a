package params

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// ParseResync parses the query of /v1alpha1/resync, and returns the pod.
func ParseResync(raw string) (types.NamespacedName, error) {
	q, err := parseQuery(raw, "namespace", "name")
	if err != nil {
		return types.NamespacedName{}, err
	}
	return q.pod(q.values["namespace"], q.values["name"])
}

// Resync converts a request for a SYNC, and returns the pod.
func Resync(request *v1alpha1.ResyncRequest) (types.NamespacedName, error) {
	return (&Faults{fields: sameNames}).pod(request.GetNamespace(), request.GetName())
}

// pod checks the name of a pod.
func (f *Faults) pod(namespace, name string) (types.NamespacedName, error) {
	for _, p := range []struct{ parameter, value string }{{"namespace", namespace}, {"name", name}} {
		if p.value == "" {
			f.Add(p.parameter, errRequired)
		} else if problems := validation.IsDNS1123Subdomain(p.value); len(problems) > 0 {
			f.Add(p.parameter, fmt.Errorf("%q: %s", p.value, printable.Rule(problems[0])))
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, f.Err()
}

// sameNames is for messages whose fields have the names of HTTP.
var sameNames = map[string]string{}

var errRequired = errors.New("required")

// ReleaseQuery is a request to merge the held set of a source.
type ReleaseQuery struct {
	Source string
	// Most is the number of pods that the set may remove; nil for any.
	Most *int
}

// ParseRelease parses the query of /v1alpha1/release.
func ParseRelease(raw string) (*ReleaseQuery, error) {
	q, err := parseQuery(raw, "source", "removes")
	if err != nil {
		return nil, err
	}
	r := new(ReleaseQuery)
	if text, ok := q.values["removes"]; ok {
		most := int64(-1)
		if n, err := strconv.ParseUint(text, 10, 31); err == nil { // neither +0 nor -0
			most = int64(n)
		}
		r.setMost(&q.Faults, most, strconv.Quote(text))
	}
	r.setSource(&q.Faults, q.values["source"])
	return r, q.Err()
}

// Release converts a request to merge the held set of a source.
func Release(request *v1alpha1.ReleaseRequest) (*ReleaseQuery, error) {
	f, r := &Faults{fields: sameNames}, new(ReleaseQuery)
	if request.Removes != nil {
		r.setMost(f, request.GetRemoves(), request.GetRemoves())
	}
	r.setSource(f, request.GetSource())
	return r, f.Err()
}

func (r *ReleaseQuery) setMost(f *Faults, n int64, given any) {
	if n < 0 || n > math.MaxInt32 {
		f.Add("removes", fmt.Errorf("expected a number of pods, 0 to %d, got %v", math.MaxInt32, given))
	}
	r.Most = new(int(n))
}

func (r *ReleaseQuery) setSource(f *Faults, name string) {
	source, err := config.ParseSource(name)
	if err == nil && source == "" { // all sources
		err = errRequired
	}
	f.Add("source", err)
	r.Source = source
}
