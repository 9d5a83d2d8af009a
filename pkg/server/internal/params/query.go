// Package params parses the requests of all protocols. Its errors name each parameter or field that is invalid.
package params

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/internal/podmask"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

var updatesParameters = []string{"mode", "instance", "since", "ops", "source", "namespace", "labelSelector", "fieldSelector", "mirrorPods", "fields"}

// ParseUpdates parses the parameters of /v1alpha1/updates. Its error names every invalid
// parameter.
func ParseUpdates(query string) (view.StreamOptions, error) {
	var opts view.StreamOptions
	values, err := Parameters(query, updatesParameters)
	if err != nil {
		return opts, err
	}
	var errs []error
	fail := func(name string, err error) {
		errs = append(errs, fmt.Errorf("parameter %q: %w", name, err))
	}
	if opts.Mode, err = view.ParseMode(values["mode"]); err != nil {
		fail("mode", err)
	}
	opts.Instance = values["instance"]
	if s := values["since"]; s != "" {
		since, err := strconv.ParseInt(s, 10, 64)
		if err != nil || since < 0 {
			fail("since", fmt.Errorf("%q is not a revision: expected 0 to %d", s, math.MaxInt64))
		}
		opts.Since = &since
	} else if opts.Instance != "" {
		fail("instance", errors.New("requires since"))
	}
	if opts.Ops, err = parseOps(values["ops"]); err != nil {
		fail("ops", err)
	} else if err := checkOps(opts); err != nil {
		fail("ops", err)
	}
	if opts.Selector.Source, err = config.ParseSource(values["source"]); err != nil {
		fail("source", err)
	}
	opts.Selector.Namespace = values["namespace"]
	if opts.Selector.Labels, err = labels.Parse(values["labelSelector"]); err != nil {
		fail("labelSelector", err)
	}
	if opts.Selector.Fields, err = podfields.Parse(values["fieldSelector"]); err != nil {
		fail("fieldSelector", err)
	}
	if opts.Fields, err = ParseFields(values["fields"]); err != nil {
		fail("fields", err)
	}
	mirrorPods, err := ParseBool(values["mirrorPods"], true)
	if err != nil {
		fail("mirrorPods", err)
	}
	opts.Selector.NoMirrorPods = !mirrorPods
	return opts, errors.Join(errs...)
}

// ParseFields parses a list of fields. The empty list is nil, for all fields.
func ParseFields(list string) (*podmask.Mask, error) {
	if list == "" {
		return nil, nil //nolint:nilnil // nil is all fields
	}
	return podmask.Parse(strings.Split(list, ","))
}

// sent has the operations that each mode sends, except those of events and BOOKMARK.
var sent = map[view.Mode][]config.PodOperation{
	view.IncrementalMode:        {config.ADD, config.UPDATE, config.REMOVE, config.DELETE, config.RECONCILE},
	view.SnapshotAndUpdatesMode: {config.SET, config.UPDATE, config.DELETE, config.RECONCILE},
	view.SnapshotMode:           {config.SET},
}

// checkOps returns an error if the mode sends none of the requested operations: such a
// subscriber would wait for pods forever.
func checkOps(opts view.StreamOptions) error {
	always := []config.PodOperation{config.SYNC, config.PLEG, config.HOUSEKEEPING}
	some := slices.Concat(sent[opts.Mode], always)
	if len(sent[opts.Mode]) == 0 || len(opts.Ops) == 0 || len(opts.Ops) == 1 && opts.Ops[config.BOOKMARK] ||
		slices.ContainsFunc(some, func(op config.PodOperation) bool { return opts.Ops[op] }) {
		return nil
	}
	return fmt.Errorf("mode %s sends none of them: add one of %v", opts.Mode, some)
}

// ParseBool parses a boolean parameter. It returns fallback if the parameter is empty.
func ParseBool(s string, fallback bool) (bool, error) {
	if s == "" {
		return fallback, nil
	}
	value, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("expected true or false, got %q", s)
	}
	return value, nil
}

// Parameters returns the parameters of the query. It returns an error if one is unknown or is
// given more than once.
func Parameters(query string, known []string) (map[string]string, error) {
	values, err := url.ParseQuery(query)
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
	return single, nil
}

// parseOps parses a list of operations. * is all operations. The empty list is nil, the
// default.
func parseOps(list string) (journal.Operations, error) {
	if list == "" {
		return nil, nil //nolint:nilnil // nil is the default set
	}
	ops := make(journal.Operations)
	for name := range strings.SplitSeq(list, ",") {
		if name == "*" {
			for op := config.ADD; op <= config.BOOKMARK; op++ {
				ops[op] = true
			}
			continue
		}
		op, err := config.ParseOperation(strings.ToUpper(strings.TrimSpace(name)))
		if err != nil {
			return nil, err
		}
		ops[op] = true
	}
	return ops, nil
}
