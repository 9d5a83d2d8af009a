package params

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

var modes = map[v1alpha1.Mode]view.Mode{
	v1alpha1.Mode_MODE_UNSPECIFIED:          view.IncrementalMode,
	v1alpha1.Mode_MODE_INCREMENTAL:          view.IncrementalMode,
	v1alpha1.Mode_MODE_SNAPSHOT_AND_UPDATES: view.SnapshotAndUpdatesMode,
	v1alpha1.Mode_MODE_SNAPSHOT:             view.SnapshotMode,
}

// operationPrefix is what the names of operations in protobuf begin with.
const operationPrefix = "OPERATION_"

// Operation returns the operation of protobuf with the name of one of config.
func Operation(name string) v1alpha1.Operation {
	return v1alpha1.Operation(v1alpha1.Operation_value[operationPrefix+name])
}

// sent has the operations that each mode sends, except those of events and BOOKMARK.
var sent = map[view.Mode][]config.PodOperation{
	view.IncrementalMode:        {config.ADD, config.UPDATE, config.REMOVE, config.DELETE, config.RECONCILE},
	view.SnapshotAndUpdatesMode: {config.SET, config.UPDATE, config.DELETE, config.RECONCILE},
	view.SnapshotMode:           {config.SET},
}

// checkOps returns an error if the mode sends none of the requested operations: such a
// subscriber would wait for pods forever.
func checkOps(opts *view.StreamOptions) error {
	always := []config.PodOperation{config.SYNC, config.PLEG, config.HOUSEKEEPING}
	some := slices.Concat(sent[opts.Mode], always)
	if len(sent[opts.Mode]) == 0 || len(opts.Ops) == 0 || len(opts.Ops) == 1 && opts.Ops[config.BOOKMARK] ||
		slices.ContainsFunc(some, func(op config.PodOperation) bool { return opts.Ops[op] }) {
		return nil
	}
	return fmt.Errorf("mode %s sends none of them: add one of %v", opts.Mode, some)
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
