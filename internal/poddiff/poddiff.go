// Package poddiff describes how two versions of a pod differ:
//
//	poddiff.Compare(before, after) // spec.containers[c].image: web:1 → web:2
//	poddiff.Unified(before, after) // a unified diff of the manifests
//
// A [Stream] describes what each update of a stream changes.
package poddiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/config"
)

// maxValue is the maximum length of a shown value in characters.
const maxValue = 40

// Compare returns a line for each difference, ordered by the paths of the fields. It ignores the annotations that podconfigd
// adds.
func Compare(before, after *v1.Pod) []string {
	var d differ
	d.compare("metadata.labels", generic(before.Labels), generic(after.Labels))
	d.compare("metadata.annotations", generic(writtenAnnotations(before)), generic(writtenAnnotations(after)))
	d.compare("metadata.ownerReferences", ownerUIDs(before), ownerUIDs(after))
	d.compare("metadata.deletionTimestamp", generic(before.DeletionTimestamp), generic(after.DeletionTimestamp))
	// The conversion to JSON takes a hundred times as long as this comparison.
	if !reflect.DeepEqual(&before.Spec, &after.Spec) {
		d.compare("spec", generic(before.Spec), generic(after.Spec))
	}
	if !reflect.DeepEqual(&before.Status, &after.Status) {
		d.compare("status", generic(before.Status), generic(after.Status))
	}
	return d.lines
}

// writtenAnnotations returns the annotations that podconfigd has not added.
func writtenAnnotations(pod *v1.Pod) map[string]string {
	written := maps.Clone(pod.Annotations)
	for _, key := range config.AddedAnnotations {
		delete(written, key)
	}
	return written
}

// ownerUIDs returns the UIDs of the owners that a pod refers to, by KIND/NAME.
func ownerUIDs(pod *v1.Pod) map[string]any {
	uids := make(map[string]any, len(pod.OwnerReferences))
	for i := range pod.OwnerReferences {
		o := &pod.OwnerReferences[i]
		uids[o.Kind+"/"+o.Name] = string(o.UID)
	}
	return uids
}

// generic converts a value to JSON types.
func generic(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return err.Error()
	}
	return out
}

type differ struct{ lines []string }

func (d *differ) compare(path string, before, after any) {
	switch {
	case before == nil && after == nil:
		return
	case isEmpty(before) && isEmpty(after):
		return
	}
	mapBefore, okBefore := asMap(before)
	mapAfter, okAfter := asMap(after)
	if okBefore && okAfter {
		keys := slices.AppendSeq(slices.Collect(maps.Keys(mapBefore)), maps.Keys(mapAfter))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			d.compare(join(path, key), mapBefore[key], mapAfter[key])
		}
		return
	}
	if was, is := show(before), show(after); was != is {
		d.lines = append(d.lines, fmt.Sprintf("%s: %s → %s", path, was, is))
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// asMap returns the fields of an object, or the elements of a list. The key of an element is its name, or its index if it has no
// name.
func asMap(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case []any:
		elements := make(map[string]any, len(v))
		for i, element := range v {
			key := fmt.Sprintf("[%d]", i)
			if object, ok := element.(map[string]any); ok {
				if name, ok := object["name"].(string); ok {
					key = "[" + name + "]"
				}
			}
			elements[key] = element
		}
		return elements, true
	}
	return nil, false
}

func join(path, key string) string {
	if strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}

// show returns a short form of a value.
func show(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return "(none)"
	case string:
		s = v
	default:
		data, _ := json.Marshal(v) // never fails: v is from JSON
		s = string(data)
	}
	if runes := []rune(s); len(runes) > maxValue {
		s = string(runes[:maxValue-1]) + "…"
	}
	return s
}

// Unified returns the unified diff of the manifests of two versions of a pod. One version can be nil. The UID of a static pod
// changes with each edit, so the diff of two versions has none.
func Unified(before, after *v1.Pod) (string, error) {
	if before != nil && after != nil {
		was, is := *before, *after
		was.UID, is.UID = "", ""
		before, after = &was, &is
	}
	was, old, err := named(before)
	if err != nil {
		return "", err
	}
	is, changed, err := named(after)
	if err != nil {
		return "", err
	}
	_, lines, _ := bytes.Cut(diff.Diff(was, old, is, changed), []byte("\n")) // without the line "diff a b"
	return string(lines), nil
}

func named(pod *v1.Pod) (name string, manifest []byte, err error) {
	if pod == nil {
		return "/dev/null", nil, nil
	}
	manifest, err = Manifest(pod)
	return pod.Namespace + "/" + pod.Name, manifest, err
}

// Manifest returns a pod as YAML, without the managed fields and the annotations that podconfigd adds.
func Manifest(pod *v1.Pod) ([]byte, error) {
	shown := *pod
	shown.ManagedFields = nil
	shown.Annotations = writtenAnnotations(pod)
	return printable.YAML(&shown)
}

const (
	// maxChanges is the maximum number of differences in a Summary. maxRemoved is the maximum number of removed pods that
	// are kept, to compare them with a new pod of the same name.
	maxChanges = 3
	maxRemoved = 1000
)

// Stream keeps the pods of a stream of updates. So it can describe what each update changes.
type Stream struct {
	present map[types.UID]*v1.Pod
	removed map[types.NamespacedName]*v1.Pod
}

// NewStream returns a stream without pods.
func NewStream() *Stream {
	return &Stream{present: make(map[types.UID]*v1.Pod), removed: make(map[types.NamespacedName]*v1.Pod)}
}

// Reset forgets all pods, also the removed ones.
func (s *Stream) Reset() {
	clear(s.present)
	clear(s.removed)
}

// Take keeps the pod of an ADD, UPDATE, REMOVE, DELETE, RECONCILE or SET, and returns the change of the pod.
func (s *Stream) Take(op v1alpha1.Op, pod *v1.Pod) Change {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	before := s.present[pod.UID]
	switch op {
	case v1alpha1.OpRemove:
		delete(s.present, pod.UID)
		if len(s.removed) < maxRemoved {
			s.removed[name] = pod
		}
		return Change{Op: op, Before: pod}
	case v1alpha1.OpAdd, v1alpha1.OpSet:
		before = s.removed[name]
		delete(s.removed, name)
	}
	s.present[pod.UID] = pod
	return Change{Op: op, Before: before, After: pod}
}

// Change is the change of one pod. Before is nil for a new pod, After for a removed one. An ADD has a Before if the pod replaces
// a removed pod with the same name.
type Change struct {
	Op            v1alpha1.Op
	Before, After *v1.Pod
}

// String describes the change in one line: the images of a new pod, or the differences.
func (c Change) String() string {
	added := c.Op == v1alpha1.OpAdd || c.Op == v1alpha1.OpSet
	switch {
	case c.After == nil:
		return ""
	case c.Before != nil && added:
		if changes := Compare(c.Before, c.After); len(changes) > 0 || c.Before.UID != c.After.UID {
			return "recreated: " + Summary(changes)
		}
		return "removed and added again, unchanged"
	case c.Before != nil:
		return Summary(Compare(c.Before, c.After))
	case added:
		return strings.Join(podfields.Images(c.After), ", ")
	}
	return ""
}

// Summary joins the first maxChanges differences.
func Summary(changes []string) string {
	switch n := len(changes) - maxChanges; {
	case len(changes) == 0:
		return "only the UID"
	case n > 0:
		return strings.Join(changes[:maxChanges], "; ") + fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(changes, "; ")
}
