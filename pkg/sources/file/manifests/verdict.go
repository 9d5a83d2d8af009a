package manifests

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

// Verdict is the verdict on a file, with its faults and warnings one by one.
type Verdict struct {
	v1alpha1.Manifest
	// File is the file that was read. The verdict's Path is the path that the pod's UID depends on.
	File             string
	Faults, Warnings []manifest.Fault
}

// Verdicts returns the verdicts on all files, sorted by name.
func (s *Set) Verdicts() []Verdict {
	verdicts := make([]Verdict, 0, len(s.order))
	for _, f := range s.order {
		if f.verdict.State != "" {
			v := Verdict{Manifest: f.verdict, File: f.path, Warnings: s.warnings(f)}
			if f.fault != nil {
				v.Faults = f.fault.faults
			}
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

// pass updates the file's verdict. If it changed, it reports and logs it.
func (s *Set) pass(ctx context.Context, f *file) {
	if s.files[f.name] != f {
		s.reporter.Gone(ctx, &f.verdict)
		f.verdict = v1alpha1.Manifest{}
		return
	}
	if f.unripe || f.verdict.State == "" && f.owner != nil && f.owner.missing {
		return // it is not decided yet whether it gives a pod
	}
	v := v1alpha1.Manifest{Path: f.as, Warnings: texts(f.path, s.warnings(f))}
	if f.fault != nil {
		v.Reason, v.Message = f.fault.reason, sources.ShortText(strings.Join(texts(f.path, f.fault.faults), "; "))
		v.Fault = f.fault.lines
	}
	if !s.decide(f, &v) {
		return
	}
	switch {
	case f.pod != nil:
		v.Namespace, v.Name, v.UID = f.pod.Namespace, f.pod.Name, string(f.pod.UID)
	case f.fault != nil:
		v.Namespace, v.Name = f.fault.namespace, f.fault.name
	}
	if reflect.DeepEqual(v, f.verdict) {
		return
	}
	was := f.verdict
	f.verdict = v
	if s.judge != nil {
		s.judge(f.as, &v)
	}
	s.reporter.Report(ctx, v, &was)
}

// decide sets the state of a file in its verdict. It reports whether there is one.
func (s *Set) decide(f *file, v *v1alpha1.Manifest) bool {
	switch {
	case f.serving != nil && f.fault == nil:
		v.State = v1alpha1.ManifestAccepted
		if s.copyOf(f) != "" {
			v.Reason = sources.ReasonCopy
		}
		if before := s.holders.before(claimsOf(f.serving)[0], f.name); len(before) > 0 {
			v.Message = "took over the pod's name from " + describeFormer(before, f.name)
		}
	case f.serving != nil:
		v.State = v1alpha1.ManifestHeld
		v.Message += "; its last good pod is kept"
	case f.fault != nil && f.fault.foreign && f.name != follow.Single:
		v.State = v1alpha1.ManifestIgnored
	case f.fault != nil:
		v.State = v1alpha1.ManifestRejected
	case f.pod != nil:
		v.State, v.Reason, v.Message = v1alpha1.ManifestShadowed, sources.ReasonDuplicate, f.conflict
	default:
		return false // it is still being written for the first time
	}
	return true
}

// describeFormer returns the last of the files that had the name of a pod before the file, and whether it gets it back: see rank.
func describeFormer(before []string, name string) string {
	last := before[len(before)-1]
	if of := copyOf(last); sameName(of, name) || of != "" && len(before) > 1 && copyOf(name) == "" {
		return last
	}
	return last + ", which gets it back when it is there again"
}

// copyOf returns the name of the file of which the file looks like a copy, if it serves a pod that may not be meant: it took
// over from another file, or its name does not end as those of manifests do.
func (s *Set) copyOf(f *file) (of string) {
	if f.serving == nil || f.name == follow.Single {
		return ""
	}
	before := s.holders.before(claimsOf(f.serving)[0], f.name)
	if _, extended := bare(f.name); extended && len(before) == 0 {
		return ""
	}
	of = copyOf(f.name)
	for _, name := range before {
		if sameName(name, of) {
			return name
		}
	}
	return of
}

// warnings returns the warnings about the file.
func (s *Set) warnings(f *file) []manifest.Fault {
	of := s.copyOf(f)
	if of == "" {
		return f.warnings
	}
	return append(slices.Clone(f.warnings), manifest.Fault{
		Message: "looks like a copy of " + of + ", but gives a pod: if it is no manifest, let its name begin with a dot, or set --ignore-manifests",
	})
}

// texts returns the faults as lines of text.
func texts(path string, faults []manifest.Fault) (lines []string) {
	for _, f := range faults {
		lines = append(lines, f.In(filepath.Base(path)))
	}
	return lines
}

// Judge returns the verdict on a manifest that is in no file.
func Judge(decoder *manifest.Decoder, name string, data []byte) Verdict {
	pod, warnings, err := decoder.DecodeFile(name, data)
	v := Verdict{File: name, Warnings: warnings}
	v.Path, v.State, v.Manifest.Warnings = name, v1alpha1.ManifestAccepted, texts(name, warnings)
	if err != nil {
		f := faultOf(err)
		v.State, v.Reason, v.Message = v1alpha1.ManifestRejected, f.reason, sources.ShortText(strings.Join(texts(name, f.faults), "; "))
		v.Namespace, v.Name, v.Faults = f.namespace, f.name, f.faults
		return v
	}
	v.Namespace, v.Name = pod.Namespace, pod.Name
	return v
}
