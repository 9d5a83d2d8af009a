package story

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/cmd/podconfigctl/podname"
	"github.com/podconfigd/podconfigd/internal/mend"
	"github.com/podconfigd/podconfigd/internal/similar"
)

// ErrNotFound means that the daemon has no pod and no manifest with the name.
var ErrNotFound = errors.New("not found")

// Find returns the pod or the manifest with a name: the name of a pod as in package podname, or the path or the base name of a
// manifest, also without its extension. If there is none, the error names a similar one. If there are several, the error names them all.
func Find(name string, f *Facts) (Subject, error) {
	name = strings.TrimPrefix(name, "pod/")
	pod, _ := podname.Parse(name, "") // without a name, it is a path
	matches := []func(s *Subject) bool{
		func(s *Subject) bool { return pod.Exact(s.Namespace, s.Name) },
		func(s *Subject) bool { return s.onPath(name) },
		func(s *Subject) bool { return s.Manifest != nil && filepath.Base(s.Manifest.Path) == name },
		func(s *Subject) bool { return pod.InManifest(s.Namespace, s.Name, f.Status.NodeName) },
		func(s *Subject) bool { return s.hasStem(name) },
	}
	for i, fits := range matches {
		byStem := i == len(matches)-1
		found := make(map[string]Subject)
		for s := range subjects(f) {
			if !fits(&s) {
				continue
			}
			// Several manifests can have the name of a pod. The pod is only one subject.
			if byName := s.Name != "" && !s.onPath(name) && (s.Manifest == nil || filepath.Base(s.Manifest.Path) != name); byName && !byStem {
				s = Subject{Namespace: s.Namespace, Name: s.Name}
			}
			found[s.String()] = s
		}
		if len(found) > 1 {
			return Subject{}, fmt.Errorf("%q is ambiguous: expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(found)), ", "))
		}
		for _, s := range found {
			return s, nil
		}
	}
	return Subject{}, fmt.Errorf("pod or manifest %q %w%s", name, ErrNotFound, notFoundHint(name, f))
}

// String returns a name of the subject that Find accepts.
func (s Subject) String() string {
	if s.Manifest != nil && s.Manifest.Path != "" {
		return s.Manifest.Path
	}
	return s.Namespace + "/" + s.Name
}

// hasStem reports whether the name is that of the file without its extension.
func (s *Subject) hasStem(name string) bool {
	if s.Manifest == nil || s.Manifest.Path == "" {
		return false
	}
	base := filepath.Base(s.Manifest.Path)
	return strings.TrimSuffix(base, filepath.Ext(base)) == name
}

func (s *Subject) onPath(path string) bool {
	if s.Manifest == nil || s.Manifest.Path == "" {
		return false
	}
	if s.Manifest.Path == path || filepath.Clean(s.Manifest.Path) == filepath.Clean(path) {
		return true
	}
	absolute, err := filepath.Abs(path)
	if err != nil || !strings.Contains(path, string(filepath.Separator)) {
		return false
	}
	// A relative path of a manifest is relative to the directory of the daemon, which is not known.
	return s.Manifest.Path == absolute ||
		!filepath.IsAbs(s.Manifest.Path) && strings.HasSuffix(absolute, string(filepath.Separator)+filepath.Clean(s.Manifest.Path))
}

// subjects yields all pods and manifests.
func subjects(f *Facts) iter.Seq[Subject] {
	return func(yield func(Subject) bool) {
		for i := range f.Pods {
			if !yield(Subject{Namespace: f.Pods[i].Namespace, Name: f.Pods[i].Name}) {
				return
			}
		}
		for source, m := range manifests(f) {
			if !yield(Subject{Namespace: m.Namespace, Name: m.Name, Manifest: m, Source: source}) {
				return
			}
		}
	}
}

// manifests yields all verdicts with the names of their sources.
func manifests(f *Facts) iter.Seq2[string, *v1alpha1.Manifest] {
	return func(yield func(string, *v1alpha1.Manifest) bool) {
		for i := range f.Status.Sources {
			source := &f.Status.Sources[i]
			shown, _ := mend.Manifests(source)
			for j := range shown {
				if !yield(source.Name, &shown[j]) {
					return
				}
			}
		}
	}
}

// notFoundHint returns the end of the error of Find: a similar name, or why the name may be missing.
func notFoundHint(name string, f *Facts) string {
	known := func(yield func(string) bool) {
		for s := range subjects(f) {
			names := []string{s.Name, s.Namespace + "/" + s.Name}
			if s.Name == "" {
				names = nil
			} else if base, ok := strings.CutSuffix(s.Name, "-"+strings.ToLower(f.Status.NodeName)); ok {
				names = append(names, base)
			}
			if s.Manifest != nil && s.Manifest.Path != "" {
				names = append(names, s.Manifest.Path, filepath.Base(s.Manifest.Path))
			}
			for _, n := range names {
				if !yield(n) {
					return
				}
			}
		}
	}
	if meant := similar.To(name, known); meant != "" {
		return strings.TrimSuffix(fmt.Sprintf(": did you mean %q? %s", meant, rejected(f)), " ")
	}
	var hints []string
	if strings.HasPrefix(filepath.Base(name), ".") {
		hints = append(hints, "files whose names begin with a dot are ignored")
	}
	for i := range f.Status.Sources {
		source := &f.Status.Sources[i]
		_, omitted := mend.Manifests(source)
		switch {
		case !source.Seen && source.LastError != "":
			hints = append(hints, fmt.Sprintf("the source %s has not delivered its pods yet: %s", source.Name, source.LastError))
		case !source.Seen:
			hints = append(hints, fmt.Sprintf("the source %s has not delivered its pods yet", source.Name))
		case source.File != nil && source.File.Absent:
			hints = append(hints, fmt.Sprintf("the path %s of the source %s does not exist", source.File.Path, source.Name))
		case source.File != nil:
			hints = append(hints, fmt.Sprintf("the source %s reads %s", source.Name, source.File.Path))
		}
		if n := total(omitted); n > 0 {
			hints = append(hints, fmt.Sprintf("the status of the source %s does not list %d more manifests", source.Name, n))
		}
	}
	if text := rejected(f); text != "" {
		hints = append(hints, text)
	}
	if len(hints) == 0 {
		return ""
	}
	return ": " + strings.Join(hints, "; ")
}

// maxRejected is the maximum number of rejected manifests that a hint names.
const maxRejected = 5

// rejected says how many manifests are rejected, and which; empty for none.
func rejected(f *Facts) string {
	var names []string
	more := 0
	for _, m := range manifests(f) {
		if m.State == v1alpha1.ManifestRejected {
			names = append(names, filepath.Base(m.Path))
		}
	}
	for i := range f.Status.Sources {
		_, omitted := mend.Manifests(&f.Status.Sources[i])
		more += omitted[v1alpha1.ManifestRejected]
	}
	if n := len(names) - maxRejected; n > 0 {
		names, more = names[:maxRejected], more+n
	}
	switch n := len(names) + more; {
	case n == 0:
		return ""
	case n == 1 && more == 0:
		return "1 manifest is rejected: " + names[0]
	default:
		text := fmt.Sprintf("%d manifests are rejected: %s", n, strings.Join(names, ", "))
		if more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
		return text
	}
}

func total(omitted map[v1alpha1.ManifestState]int) (sum int) {
	for _, n := range omitted {
		sum += n
	}
	return sum
}
