package events

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
)

// The reasons of the events.
const (
	// A manifest has one of the first three states. ReasonManifestAccepted: it is accepted again.
	ReasonManifestRejected = "ManifestRejected"
	ReasonManifestHeld     = "ManifestHeld"
	ReasonManifestShadowed = "ManifestShadowed"
	ReasonManifestAccepted = "ManifestAccepted"
	// ReasonSourceDegraded: a source can't be read. ReasonSourceRecovered: it can be read again.
	ReasonSourceDegraded  = "SourceDegraded"
	ReasonSourceRecovered = "SourceRecovered"
	// ReasonRemovalHeld: a set is held, because it would remove too many pods. ReasonRemovalHoldEnded: no set of the
	// source is held any more.
	ReasonRemovalHeld      = "RemovalHeld"
	ReasonRemovalHoldEnded = "RemovalHoldEnded"
)

// reasons are all reasons.
var reasons = []string{
	ReasonManifestRejected, ReasonManifestHeld, ReasonManifestShadowed, ReasonManifestAccepted,
	ReasonSourceDegraded, ReasonSourceRecovered, ReasonRemovalHeld, ReasonRemovalHoldEnded,
}

// apiPatience is how long the requests of the apiserver source must fail before there is an event. An event can't be
// written while the apiserver is away. When the apiserver is back, the source recovers first: it waits at most 10 seconds
// for its next request.
const apiPatience = 30 * time.Second

// kind is a kind of condition.
type kind int

const (
	sourceDegraded kind = iota
	removalHeld
	manifest
	manifestsOmitted
)

// subject is what a condition is about. It stays the same while the condition changes. A file has only a path here,
// because the name in it may change. An item of a list has a name. If it has no name, its position is the path.
type subject struct {
	kind            kind
	source, path    string
	namespace, name string
}

// report is the type, the reason and the message of an event.
type report struct{ eventType, reason, message string }

// condition is a fault in the status, which has an event.
type condition struct {
	subject
	report
	// pod is the pod of the manifest; zero if it is not known.
	pod types.NamespacedName
}

func warning(s subject, reason, format string, args ...any) condition {
	return condition{subject: s, report: report{v1.EventTypeWarning, reason, fmt.Sprintf("source %s: ", s.source) + fmt.Sprintf(format, args...)}}
}

// conditionsOf returns the conditions in the status: first about sources, then about manifests.
func conditionsOf(sources []v1alpha1.SourceStatus, now time.Time) (all []condition) {
	for i := range sources {
		s := &sources[i]
		early := s.API != nil && s.DegradedSince != nil && now.Sub(*s.DegradedSince) < apiPatience
		if s.Degraded && !early {
			all = append(all, warning(subject{kind: sourceDegraded, source: s.Name}, ReasonSourceDegraded,
				"it can't be read, keeping its last pods: %s", s.LastError))
		}
		if s.Held != nil {
			all = append(all, warning(subject{kind: removalHeld, source: s.Name}, ReasonRemovalHeld,
				"a set that would remove %d of %d pods is held; to apply it, run %q", s.Held.Removes, s.Held.Pods, mend.ReleaseCommand(s.Name, s.Held.Removes)))
		}
	}
	for i := range sources {
		all = append(all, manifestsOf(&sources[i])...)
	}
	return all
}

// outcomes has the states of manifests that have an event, with its reason and its text.
var outcomes = map[v1alpha1.ManifestState]struct{ reason, text string }{
	v1alpha1.ManifestRejected: {ReasonManifestRejected, "a manifest is rejected"},
	v1alpha1.ManifestHeld:     {ReasonManifestHeld, "a manifest can't be used"},
	v1alpha1.ManifestShadowed: {ReasonManifestShadowed, "a manifest is shadowed"},
}

func manifestsOf(s *v1alpha1.SourceStatus) (all []condition) {
	manifests, omitted := mend.Manifests(s)
	for i := range manifests {
		m := &manifests[i]
		outcome := outcomes[m.State]
		if outcome.reason == "" {
			continue
		}
		about := subject{kind: manifest, source: s.Name, path: m.Path}
		if s.File == nil {
			about.namespace, about.name = m.Namespace, m.Name
		}
		c := warning(about, outcome.reason, "%s: %s", outcome.text, placed(m))
		if m.Name != "" {
			c.pod = types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		}
		all = append(all, c)
	}
	for _, state := range slices.Sorted(maps.Keys(omitted)) {
		if outcome := outcomes[state]; outcome.reason != "" {
			all = append(all, warning(subject{kind: manifestsOmitted, source: s.Name, name: string(state)}, outcome.reason,
				"%d further manifests have the state %s", omitted[state], state))
		}
	}
	return all
}

// placed returns the message of a verdict after the path of the file, or after the name of the item. A message that
// begins with the file name and the line gets only the directory.
func placed(m *v1alpha1.Manifest) string {
	if dir, file := path.Split(m.Path); file != "" && strings.HasPrefix(m.Message, file+":") {
		return dir + m.Message
	}
	return titleOf(m) + ": " + m.Message
}

func titleOf(m *v1alpha1.Manifest) string {
	if m.Path != "" {
		return m.Path
	}
	return m.Namespace + "/" + m.Name
}

// ended returns the event about the end of a condition. It returns false if there is none, because the subject is gone.
func ended(s *subject, sources []v1alpha1.SourceStatus) (report, bool) {
	i := slices.IndexFunc(sources, func(status v1alpha1.SourceStatus) bool { return status.Name == s.source })
	if i < 0 {
		return report{}, false
	}
	normal := func(reason, format string, args ...any) (report, bool) {
		return report{v1.EventTypeNormal, reason, fmt.Sprintf("source %s: ", s.source) + fmt.Sprintf(format, args...)}, true
	}
	switch s.kind {
	case sourceDegraded:
		return normal(ReasonSourceRecovered, "it can be read again")
	case removalHeld:
		return normal(ReasonRemovalHoldEnded, "no set is held any more")
	case manifest:
		manifests, _ := mend.Manifests(&sources[i])
		for j := range manifests {
			if m := &manifests[j]; m.State == v1alpha1.ManifestAccepted && accepts(m, s) {
				return normal(ReasonManifestAccepted, "manifest %s is accepted", titleOf(m))
			}
		}
	case manifestsOmitted:
	}
	return report{}, false
}

// accepts reports whether an accepted manifest is the manifest of the subject.
func accepts(m *v1alpha1.Manifest, s *subject) bool {
	if s.path != "" && m.Path != "" {
		return m.Path == s.path
	}
	return s.name != "" && m.Namespace == s.namespace && m.Name == s.name
}
