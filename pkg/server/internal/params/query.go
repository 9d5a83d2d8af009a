// Package params parses the requests for updates, lists, the history and lookups, from queries of HTTP and
// messages of gRPC. Both protocols share one type and one set of rules for each request. An error names
// every invalid parameter, by its name in the protocol.
package params

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// query has the parameters of a query, and their faults.
type query struct {
	Faults
	values map[string]string
}

// bool parses a boolean parameter. It returns fallback if the parameter is empty.
func (q *query) bool(name string, fallback bool) bool {
	s := q.values[name]
	if s == "" {
		return fallback
	}
	value, err := strconv.ParseBool(s)
	if err != nil {
		q.Add(name, fmt.Errorf("expected true or false, got %q", s))
	}
	return value
}

// parseQuery returns the parameters of a query. It returns an error if one is unknown or is given more
// than once.
func parseQuery(raw string, known ...string) (*query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing the query: %w", err)
	}
	single := make(map[string]string, len(values))
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("unknown parameter %q: expected one of %s", name, strings.Join(known, ", "))
		case len(all) > 1:
			return nil, fmt.Errorf("parameter %q: given %d times, expected once", name, len(all))
		}
		single[name] = all[0]
	}
	return &query{values: single}, nil
}

// Faults are the faults of a request.
type Faults struct {
	// fields maps parameters of HTTP to the fields of the message of gRPC whose names differ. It is nil
	// for a query.
	fields map[string]string
	errs   []error
}

// Add adds a fault. name is the name of the parameter in HTTP; it is empty for a fault of the whole
// request. If err is nil, Add does nothing.
func (f *Faults) Add(name string, err error) {
	if err == nil {
		return
	}
	field, ok := f.fields[name]
	switch {
	case f.fields == nil && name != "":
		err = fmt.Errorf("parameter %q: %w", name, err)
	case ok:
		err = fmt.Errorf("%s: %w", field, err)
	case name != "":
		err = fmt.Errorf("%s: %w", name, err)
	}
	f.errs = append(f.errs, err)
}

// Err returns all faults; nil for none.
func (f *Faults) Err() error { return errors.Join(f.errs...) }
