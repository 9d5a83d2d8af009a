package view

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// Selector selects pods. The zero value selects all.
type Selector struct {
	Source, Namespace string
	Labels            labels.Selector
	Fields            fields.Selector
	// NoMirrorPods leaves out mirror pods: the copies of static pods that a kubelet
	// creates in the apiserver.
	NoMirrorPods bool
}

// selection is a comparable form of a selector. Two subscribers with the same selection
// get the same pods.
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

// textOf returns the selector as text. The text of a selector that matches nothing is
// empty, as is that of one that matches everything.
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

// selects reports whether the selector selects all pods of an update. mirrors is whether
// it has mirror pods.
func (s *Selector) selects(mirrors bool) bool {
	return s.Source == "" && s.Namespace == "" && (!s.NoMirrorPods || !mirrors) &&
		(s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// Matches reports whether the pod is selected.
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
