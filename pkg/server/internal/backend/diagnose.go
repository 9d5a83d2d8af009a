package backend

import (
	"slices"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/mend"
)

// diagnose adds what is wrong and what to do about it. It is made of what the client sees: of its status
// without what the access rules hide. everything says that they hide nothing.
func diagnose(s *v1alpha1.Status, everything bool) {
	s.Problems = mend.Problems(s)
	s.Sources = slices.Clone(s.Sources) // what is below is shared
	for i := range s.Sources {
		source := &s.Sources[i]
		if everything {
			source.Fix = mend.Source(source)
		}
		if f := source.File; f != nil {
			changed := *f
			changed.Manifests, source.File = mended(f.Manifests), &changed
		}
		if h := source.HTTP; h != nil {
			changed := *h
			changed.Manifests, source.HTTP = mended(h.Manifests), &changed
		}
	}
}

// mended returns the verdicts with what to do. A verdict without a message is one of which the access rules
// hide the reason.
func mended(all []v1alpha1.Manifest) []v1alpha1.Manifest {
	all = slices.Clone(all)
	for i := range all {
		if m := &all[i]; m.State != v1alpha1.ManifestAccepted && m.Message != "" {
			m.Fix = mend.Manifest(m)
		}
	}
	return all
}
