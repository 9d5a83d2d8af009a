package history

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal/store"
)

// show reduces a record to what a grant shows, as the stream does: a pod that the client starts
// to see is in an ADD, and one that it no longer sees in a REMOVE. It reports whether the client
// sees the record.
func show(g *access.Grant, r *store.Record) bool {
	if g == nil || r.Gap != "" || r.Pod.Object == nil {
		return true
	}
	was, before := shown(g, r.Source, &r.Before)
	is, after := shown(g, r.Source, &r.Pod)
	if r.Op == config.REMOVE { // Pod is the version before
		if after == access.None {
			return false
		}
		r.Pod = is
		// The pod that takes over the name can be hidden.
		r.Replaced = r.Replaced && g.AtLeast(r.Source, is.Object.Namespace).Level() != access.None
		return true
	}
	switch {
	case after == access.None && (before == access.None || r.Op == config.ADD):
		return false // in an ADD, Before is another pod
	case after == access.None:
		r.Op, r.Pod, r.Before, r.Replaced = config.REMOVE, was, store.Pod{}, false
		return true
	case before == access.None && r.Op != config.ADD:
		r.Op = config.ADD
	case r.Op != config.ADD && before < access.Full && after < access.Full && access.Same(was.Object, is.Object) && sameFile(was.File, is.File):
		return false
	}
	r.Pod, r.Before = is, was
	return true
}

// shown returns a version in the form that the grant gives, and its level. It has no object if it
// is hidden, or if there is no version.
func shown(g *access.Grant, source string, p *store.Pod) (store.Pod, access.Level) {
	whole := p.Shown()
	if whole == nil {
		return store.Pod{}, access.None
	}
	form := g.Of(source, whole)
	out := store.Pod{Source: p.Source, Revision: p.Revision, ByName: p.ByName, Object: form.Apply(whole), File: p.File}
	if form.Level() < access.Redacted {
		out.File = nil
	}
	if out.Object == (*v1.Pod)(nil) {
		return store.Pod{}, access.None
	}
	return out, form.Level()
}

func sameFile(a, b *config.File) bool {
	return a == b || a != nil && b != nil && *a == *b
}
