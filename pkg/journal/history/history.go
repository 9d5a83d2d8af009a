// Package history reads the changes that package store has on disk, as objects of the
// stream API. It works with or without a running daemon.
package history

import (
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// maxChanges is the maximum number of differences that a record lists.
const maxChanges = 50

// ErrCompacted means that changes after Options.After were deleted.
var ErrCompacted = store.ErrCompacted

// Options select records. A gap is always selected: nobody knows what is missing there.
type Options struct {
	// Since is the time of the first record, and Until that of the last; zero for all.
	Since, Until time.Time
	// Source is the name of a source; empty for all.
	Source string
	// Pod is the name of a pod; empty for all.
	Pod types.NamespacedName
	// Owner selects the records in which the version before or the one after has this owner. Owners returns the owners of a version.
	Owner  podfields.OwnerSelector
	Owners func(*journal.Pod) []v1alpha1.Owner
	// Pods adds the previous and the new version of the pod to the records.
	Pods bool
	// Grant is what the client may see; nil for everything.
	Grant *access.Grant
	// After is the position of a record, to get only the later ones.
	After Position
	// Before is a revision, to get only the records of lower ones; 0 for all.
	Before int64
	// Newest has the newest record first.
	Newest bool
}

// Position is the place of a record. The zero value is before all records.
type Position struct {
	Instance string
	Revision int64
}

// Exists reports whether a state directory has records, or had them in a file that was set aside.
func Exists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return store.IsSegment(e.Name()) }), err
}

// Read reads the records of a state directory, the oldest first if opts.Newest is not set. It takes no lock and changes
// nothing. It holds the current pods at the record that it reads, and with opts.Newest the records of one file. An error of
// a record ends the sequence. It is ErrCompacted if records after opts.After were deleted.
func Read(dir string, opts Options) iter.Seq2[*v1alpha1.HistoryRecord, error] {
	return func(yield func(*v1alpha1.HistoryRecord, error) bool) {
		for part := range store.Parts(store.OS, dir, store.HistoryOptions{
			Since: opts.Since, After: opts.After.Revision, Instance: opts.After.Instance, Before: opts.Before, Newest: opts.Newest,
		}) {
			var backward []*v1alpha1.HistoryRecord
			for r, err := range part {
				if err != nil {
					yield(nil, fmt.Errorf("reading the history in %s: %w", dir, err))
					return
				}
				if !opts.selects(&r) || !show(opts.Grant, &r) || !opts.owned(&r) {
					continue
				}
				if out := record(&r, opts.Pods); opts.Newest {
					backward = append(backward, out)
				} else if !yield(out, nil) {
					return
				}
			}
			for _, r := range slices.Backward(backward) {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func (o *Options) selects(r *store.Record) bool {
	switch {
	case o.Before > 0 && (r.Revision >= o.Before || r.Revision == 0): // a gap at the end has no revision
		return false
	case !o.Until.IsZero() && r.Time.After(o.Until):
		return false
	case r.Gap != "":
		return true
	case o.Source != "" && r.Source != o.Source:
		return false
	case o.Pod == types.NamespacedName{}:
		return true
	default:
		return r.Pod != nil && r.Pod.Object.Namespace == o.Pod.Namespace && r.Pod.Object.Name == o.Pod.Name
	}
}

// owned reports whether a record is selected by its owner, as the client sees it.
func (o *Options) owned(r *store.Record) bool {
	return o.Owner.Empty() || r.Gap != "" || slices.ContainsFunc([]*journal.Pod{r.Before, r.Pod}, func(p *journal.Pod) bool {
		return p != nil && o.Owner.Matches(o.Owners(p))
	})
}

// record converts a record.
func record(r *store.Record, pods bool) *v1alpha1.HistoryRecord {
	out := &v1alpha1.HistoryRecord{Instance: r.Instance, Revision: r.Revision, Gap: valid(r.Gap)}
	if !r.Time.IsZero() {
		out.Time = &r.Time
	}
	if r.Gap != "" {
		return out
	}
	out.Op, out.Source = v1alpha1.Op(r.Op.String()), r.Source
	if r.Update != r.Revision {
		out.UpdateRevision = r.Update
	}
	if r.Pod == nil {
		return out
	}
	var before *v1.Pod
	if r.Before != nil {
		before = r.Before.Object
	}
	pod := r.Pod.Object
	out.Namespace, out.Name, out.UID = pod.Namespace, pod.Name, string(pod.UID)
	if f := r.Pod.File; f != nil {
		out.File = &v1alpha1.HistoryFile{Path: valid(f.Path), UID: f.UID, GID: f.GID, Mode: mode(f)}
	}
	if r.Op == config.REMOVE {
		out.Replaced = r.Replaced
		pod = nil
	}
	if pod != nil && before != nil {
		out.Changes = changes(before, pod, r.Before.File, r.Pod.File)
	}
	if pods {
		out.Before, out.Pod = object(before), object(pod)
	}
	return out
}

// changes describes the difference of two versions.
func changes(before, after *v1.Pod, was, is *config.File) []string {
	var lines []string
	if was != nil && is != nil {
		for _, part := range []struct{ name, was, is string }{
			{"path", valid(was.Path), valid(is.Path)}, {"owner", owner(was), owner(is)}, {"mode", mode(was), mode(is)},
		} {
			if part.was != part.is {
				lines = append(lines, fmt.Sprintf("file.%s: %s → %s", part.name, part.was, part.is))
			}
		}
	}
	lines = append(lines, poddiff.Compare(before, after)...)
	if n := len(lines) - maxChanges; n > 0 {
		lines = append(slices.Clip(lines[:maxChanges]), fmt.Sprintf("and %d more", n))
	}
	return lines
}

// valid returns a path without bytes that neither JSON nor protobuf can have.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func owner(f *config.File) string { return fmt.Sprintf("%d:%d", f.UID, f.GID) }
func mode(f *config.File) string  { return fmt.Sprintf("%04o", f.Mode) }

// object returns the pod with apiVersion and kind.
func object(pod *v1.Pod) *v1.Pod {
	if pod == nil {
		return nil
	}
	whole := *pod
	whole.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return &whole
}

// show reduces a record to what a grant shows, and reports whether the client sees it. As in the stream,
// a pod that the client starts to see is an ADD, and a pod that it no longer sees is a REMOVE.
func show(g *access.Grant, r *store.Record) bool {
	if g == nil || r.Gap != "" || r.Pod == nil {
		return true
	}
	var is, was access.Level
	r.Pod, is = shown(g, r.Source, r.Pod)
	r.Before, was = shown(g, r.Source, r.Before)
	// From here on, the record has no version that the client may not see.
	switch {
	case was == access.None && (is == access.None || r.Op == config.REMOVE): // also a removed pod of which nothing is known
		return false
	case is == access.None && r.Op == config.ADD: // Before is another pod
		return false
	case r.Op == config.REMOVE: // both are the removed version
		// The pod that takes over the name can be hidden.
		r.Replaced = r.Replaced && g.AtLeast(r.Source, r.Pod.Object.Namespace).Level() != access.None
	case is == access.None:
		r.Op, r.Pod, r.Replaced = config.REMOVE, r.Before, false
	case was == access.None && r.Op != config.ADD:
		r.Op = config.ADD
	case r.Op != config.ADD && was < access.Full && is < access.Full && access.Same(r.Before.Object, r.Pod.Object) && sameFile(r.Before.File, r.Pod.File):
		return false
	}
	return true
}

// shown returns a version in the form that the grant gives, and its level. It is nil if it is hidden,
// or if there is no version.
func shown(g *access.Grant, source string, p *journal.Pod) (*journal.Pod, access.Level) {
	if p == nil {
		return nil, access.None
	}
	form := g.Of(source, p.Object)
	object := form.Apply(p.Object)
	if object == nil {
		return nil, access.None
	}
	out := &journal.Pod{Source: p.Source, Revision: p.Revision, Object: object, File: p.File}
	if form.Level() < access.Redacted {
		out.File = nil
	}
	return out, form.Level()
}

func sameFile(a, b *config.File) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// ParseSince parses the start of a history: a period before now, as in 10m, or a time in the
// format of RFC 3339. It is zero if the text is empty.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if period, err := time.ParseDuration(s); err == nil {
		if period <= 0 {
			return time.Time{}, fmt.Errorf("%s is not a period: expected more than 0s", s)
		}
		return now.Add(-period), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a period nor a time: expected for example 10m or 2026-01-02T15:04:05Z", s)
	}
	return at, nil
}

// ParsePod parses the name of a pod. An empty one is no error.
func ParsePod(s string) (types.NamespacedName, error) {
	if s == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		return types.NamespacedName{}, fmt.Errorf("%q is not a pod: expected NAMESPACE/NAME", s)
	}
	for _, part := range []string{namespace, name} {
		if problems := validation.IsDNS1123Subdomain(part); len(problems) > 0 {
			return types.NamespacedName{}, fmt.Errorf("%q is not a pod: %q: %s", s, part, printable.Rule(problems[0]))
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
