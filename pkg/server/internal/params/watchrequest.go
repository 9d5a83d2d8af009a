package params

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/internal/podmask"
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

// Operations maps the operations of protobuf to those of config.
var Operations = map[v1alpha1.Operation]config.PodOperation{
	v1alpha1.Operation_OPERATION_ADD:          config.ADD,
	v1alpha1.Operation_OPERATION_UPDATE:       config.UPDATE,
	v1alpha1.Operation_OPERATION_REMOVE:       config.REMOVE,
	v1alpha1.Operation_OPERATION_DELETE:       config.DELETE,
	v1alpha1.Operation_OPERATION_RECONCILE:    config.RECONCILE,
	v1alpha1.Operation_OPERATION_SET:          config.SET,
	v1alpha1.Operation_OPERATION_SYNC:         config.SYNC,
	v1alpha1.Operation_OPERATION_PLEG:         config.PLEG,
	v1alpha1.Operation_OPERATION_HOUSEKEEPING: config.HOUSEKEEPING,
	v1alpha1.Operation_OPERATION_BOOKMARK:     config.BOOKMARK,
}

// WatchOptions converts a request. Its error names every invalid field.
func WatchOptions(request *v1alpha1.WatchRequest) (view.StreamOptions, error) {
	opts := view.StreamOptions{Instance: request.GetInstance(), Since: request.Since}
	var errs []error
	mode, known := modes[request.GetMode()]
	if !known {
		errs = append(errs, fmt.Errorf("mode: %d is not a mode", request.GetMode()))
	}
	opts.Mode = mode
	if opts.Since != nil && *opts.Since < 0 {
		errs = append(errs, fmt.Errorf("since: %d is not a revision: expected 0 to %d", *opts.Since, math.MaxInt64))
	}
	if opts.Since == nil && opts.Instance != "" {
		errs = append(errs, errors.New("instance: requires since"))
	}
	if len(request.GetOps()) > 0 {
		opts.Ops = make(journal.Operations)
	}
	for i, op := range request.GetOps() {
		o, known := Operations[op]
		if !known {
			errs = append(errs, fmt.Errorf("ops[%d]: %v is not an operation", i, op))
			continue
		}
		opts.Ops[o] = true
	}
	if err := checkOps(opts); err != nil {
		errs = append(errs, fmt.Errorf("ops: %w", err))
	}
	var err error
	if opts.Fields, err = FieldsOf(request.GetFields()); err != nil {
		errs = append(errs, err)
	}
	selector, err := PodSelector(request.GetSelector())
	opts.Selector = selector
	return opts, errors.Join(append(errs, err)...)
}

// FieldsOf converts a field mask. Its error names the field. Paths have the names of fields in JSON,
// or, as from the JSON of a field mask, in snake case.
func FieldsOf(mask *fieldmaskpb.FieldMask) (*podmask.Mask, error) {
	paths := slices.Clone(mask.GetPaths())
	for i, path := range paths {
		names, subscript, _ := strings.Cut(path, "[")
		words := strings.Split(names, "_")
		for k, word := range words[1:] {
			if word != "" {
				words[k+1] = strings.ToUpper(word[:1]) + word[1:]
			}
		}
		if paths[i] = strings.Join(words, ""); subscript != "" {
			paths[i] += "[" + subscript
		}
	}
	fields, err := podmask.Parse(paths)
	if err != nil {
		return nil, fmt.Errorf("fields: %w", err)
	}
	return fields, nil
}

func PodSelector(s *v1alpha1.PodSelector) (view.Selector, error) {
	selector := view.Selector{Namespace: s.GetNamespace(), NoMirrorPods: s.GetNoMirrorPods()}
	var errs []error
	var err error
	if selector.Source, err = config.ParseSource(s.GetSource()); err != nil {
		errs = append(errs, fmt.Errorf("selector.source: %w", err))
	}
	if selector.Labels, err = labels.Parse(s.GetLabelSelector()); err != nil {
		errs = append(errs, fmt.Errorf("selector.label_selector: %w", err))
	}
	if selector.Fields, err = podfields.Parse(s.GetFieldSelector()); err != nil {
		errs = append(errs, fmt.Errorf("selector.field_selector: %w", err))
	}
	return selector, errors.Join(errs...)
}
