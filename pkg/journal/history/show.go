package history

import (
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// show reduces a record to what a grant shows, as the stream does: a pod that the client starts
// to see is in an ADD, and one that it no longer sees in a REMOVE. It reports whether the client
// sees the record.
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
