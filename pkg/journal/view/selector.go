package view

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Selector selects pods. Its zero value selects all.
type Selector struct {
	Source, Namespace string
	Labels            labels.Selector
	Fields            fields.Selector
	// NoMirrorPods leaves out the pods by which a kubelet shows static pods to the
	// apiserver.
	NoMirrorPods bool
}

// selection is a selector in a form that can be compared: two subscribers that have the
// same are told the same.
type selection struct {
	source, namespace, labels, fields string
	noMirrorPods                      bool
}

func (s *Selector) selection() selection {
	key := selection{source: s.Source, namespace: s.Namespace, noMirrorPods: s.NoMirrorPods}
	if s.Labels != nil {
		key.labels = textOf(s.Labels)
	}
	if s.Fields != nil {
		key.fields = textOf(s.Fields)
	}
	return key
}

// textOf returns the selector as text. Its own text is empty both where it matches
// nothing and where it matches everything.
func textOf(s interface {
	fmt.Stringer
	Empty() bool
}) string {
	text := s.String()
	if text == "" && !s.Empty() {
		return "\x00"
	}
	return text
}

// everything tells whether the selector selects all pods.
func (s *Selector) everything() bool { return s.selects(true) }

// selects tells whether the selector selects all pods of an update, with mirror pods
// among them or not.
func (s *Selector) selects(mirrors bool) bool {
	return s.Source == "" && s.Namespace == "" && (!s.NoMirrorPods || !mirrors) &&
		(s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// Matches tells whether the pod is selected.
func (s *Selector) Matches(p *journal.Pod) bool {
	switch {
	case s.Source != "" && s.Source != p.Source:
		return false
	case s.Namespace != "" && s.Namespace != p.Object.Namespace:
		return false
	case s.Labels != nil && !s.Labels.Matches(labels.Set(p.Object.Labels)):
		return false
	case s.Fields != nil && !s.Fields.Empty() && !s.Fields.Matches(podfields.Of(p.Object)):
		return false
	case s.NoMirrorPods && config.IsMirrorPod(p.Object):
		return false
	}
	return true
}

// was tells whether the version was there and selected.
func (s *Selector) was(p *journal.Pod) bool { return p != nil && s.Matches(p) }

// filter returns the pods that are selected.
func (s *Selector) filter(pods []*journal.Pod) []*journal.Pod {
	if s.everything() {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *journal.Pod) bool { return !s.Matches(p) })
}
