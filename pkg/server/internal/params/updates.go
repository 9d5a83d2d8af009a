package params

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/api/podconfigd/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
)

// ParseUpdates parses the query of /v1alpha1/updates.
func ParseUpdates(raw string) (opts view.StreamOptions, err error) {
	q, err := parseQuery(raw, "mode", "instance", "since", "ops", "source", "namespace", "labelSelector", "fieldSelector", "mirrorPods", "fields",
		"owners", "owner", "namespaceLabels", "nodeLabels")
	if err != nil {
		return opts, err
	}
	opts.Owners = q.bool("owners", false)
	opts.NamespaceLabels, opts.NodeLabels = q.bool("namespaceLabels", false), q.bool("nodeLabels", false)
	opts.Instance = q.values["instance"]
	opts.Mode, err = view.ParseMode(q.values["mode"])
	q.Add("mode", err)
	if s := q.values["since"]; s != "" {
		since, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			q.Add("since", notRevision(strconv.Quote(s)))
		}
		opts.Since = new(int64(since))
	}
	opts.Ops, err = parseOps(q.values["ops"])
	q.Add("ops", err)
	opts.Fields, err = parseFields(q.values["fields"])
	q.Add("fields", err)
	opts.Selector = q.selector(podfields.ParseSelector, q.values["source"], q.values["labelSelector"], q.values["fieldSelector"], q.values["owner"])
	opts.Selector.Namespace, opts.Selector.NoMirrorPods = q.values["namespace"], !q.bool("mirrorPods", true)
	q.checkUpdates(&opts)
	return opts, q.Err()
}

// Pods is a request for /pods.
type Pods struct {
	Selector view.Selector
	Fields   *podfields.Mask
	// Versions is true if pods are as in the Kubernetes API.
	Versions bool
}

// ParsePods parses the query of /pods. Like /pods of the kubelet, the answer has mirror pods only if the
// query has mirrorPods=true.
func ParsePods(raw string) (*Pods, error) {
	q, err := parseQuery(raw, "mirrorPods", "fields", "resourceVersions", "owner")
	if err != nil {
		return nil, err
	}
	p := &Pods{Selector: view.Selector{NoMirrorPods: !q.bool("mirrorPods", false)}, Versions: q.bool("resourceVersions", false)}
	p.Selector.Owner, err = podfields.ParseOwner(q.values["owner"])
	q.Add("owner", err)
	p.Fields, err = parseFields(q.values["fields"])
	q.Add("fields", err)
	if p.Versions && p.Fields != nil {
		q.Add("resourceVersions", errors.New("not supported with \"fields\""))
	}
	return p, q.Err()
}

// selectorFields maps parameters of HTTP to the fields of a message with a selector.
var selectorFields = map[string]string{
	"source": "selector.source", "labelSelector": "selector.label_selector", "fieldSelector": "selector.field_selector",
	"owner": "selector.owner",
}

// Updates converts a request for updates.
func Updates(request *v1alpha1.WatchRequest) (view.StreamOptions, error) {
	f := Faults{fields: selectorFields}
	opts := view.StreamOptions{
		Instance: request.GetInstance(), Since: request.Since, Owners: request.GetOwners(),
		NamespaceLabels: request.GetNamespaceLabels(), NodeLabels: request.GetNodeLabels(),
	}
	mode, ok := modes[request.GetMode()]
	if !ok {
		f.Add("mode", fmt.Errorf("%d is not a mode", request.GetMode()))
	}
	opts.Mode = mode
	if opts.Since != nil && *opts.Since < 0 {
		f.Add("since", notRevision(*opts.Since))
	}
	if len(request.GetOps()) > 0 {
		opts.Ops = make(journal.Operations)
	}
	for i, op := range request.GetOps() {
		o, err := config.ParseOperation(strings.TrimPrefix(op.String(), operationPrefix))
		if err != nil {
			f.Add(fmt.Sprintf("ops[%d]", i), fmt.Errorf("%v is not an operation", op))
			continue
		}
		opts.Ops[o] = true
	}
	opts.Selector, opts.Fields = f.selection(podfields.ParseSelector, request.GetSelector(), request.GetFields())
	f.checkUpdates(&opts)
	return opts, f.Err()
}

// List converts a request for a list.
func List(request *v1alpha1.ListRequest) (view.Selector, *podfields.Mask, error) {
	f := Faults{fields: selectorFields}
	selector, mask := f.selection(podfields.ParseSelector, request.GetSelector(), request.GetFields())
	return selector, mask, f.Err()
}

// checkUpdates checks what depends on several parameters.
func (f *Faults) checkUpdates(opts *view.StreamOptions) {
	if opts.Since == nil && opts.Instance != "" {
		f.Add("instance", errors.New("requires since"))
	}
	f.Add("ops", checkOps(opts))
}

func notRevision(given any) error {
	return fmt.Errorf("%v is not a revision: expected 0 to %d", given, math.MaxInt64)
}

// fieldParser parses a field selector.
type fieldParser func(string) (fields.Selector, error)

func (f *Faults) selector(parse fieldParser, source, labelSelector, fieldSelector, owner string) (s view.Selector) {
	var err error
	s.Source, err = config.ParseSource(source)
	f.Add("source", err)
	s.Labels, err = labels.Parse(labelSelector)
	f.Add("labelSelector", err)
	s.Fields, err = parse(fieldSelector)
	f.Add("fieldSelector", err)
	s.Owner, err = podfields.ParseOwner(owner)
	f.Add("owner", err)
	return s
}

// selection converts the selector and the field mask of a message. The paths of the mask are names of
// fields in JSON, or the same names in snake case: protojson converts the paths of a mask.
func (f *Faults) selection(parse fieldParser, s *v1alpha1.PodSelector, mask *fieldmaskpb.FieldMask) (view.Selector, *podfields.Mask) {
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
	fieldMask, err := podfields.ParseMask(paths)
	f.Add("fields", err)
	selector := f.selector(parse, s.GetSource(), s.GetLabelSelector(), s.GetFieldSelector(), s.GetOwner())
	selector.Namespace, selector.NoMirrorPods = s.GetNamespace(), s.GetNoMirrorPods()
	return selector, fieldMask
}

// parseFields parses a list of fields. The empty list is nil, for all fields.
func parseFields(list string) (*podfields.Mask, error) {
	if list == "" {
		return nil, nil //nolint:nilnil // nil is all fields
	}
	return podfields.ParseMask(strings.Split(list, ","))
}

var modes = map[v1alpha1.Mode]view.Mode{
	v1alpha1.Mode_MODE_UNSPECIFIED:          view.IncrementalMode,
	v1alpha1.Mode_MODE_INCREMENTAL:          view.IncrementalMode,
	v1alpha1.Mode_MODE_SNAPSHOT_AND_UPDATES: view.SnapshotAndUpdatesMode,
	v1alpha1.Mode_MODE_SNAPSHOT:             view.SnapshotMode,
}

// operationPrefix is the prefix of the names of operations in protobuf.
const operationPrefix = "OPERATION_"

// Operation returns the operation of protobuf with the name of one of config.
func Operation(name string) v1alpha1.Operation {
	return v1alpha1.Operation(v1alpha1.Operation_value[operationPrefix+name])
}

// sent has the operations that each mode sends, without events and BOOKMARK.
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
