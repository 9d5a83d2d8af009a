package manifests

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

const (
	// temporary is how long a new file whose name looks temporary must exist until it gives a new pod, if no kubelet runs. It
	// is moved to its final name before that.
	temporary = time.Second
	// brief is the longest time for which a file has a name until it is moved, if it is a temporary file.
	brief = 10 * time.Second
)

// assign assigns claims after some files got another pod. It reports whether the set
// changed, and returns the files that waited or still wait for a claim, and those that lost one.
func (s *Set) assign(ctx context.Context, renewed []*file) (changed bool, reassigned []*file) {
	if len(renewed) == 0 {
		return false, nil
	}
	var released []release
	for _, f := range renewed {
		changed = changed || f.serving != nil
		released = append(released, s.claims.release(f)...)
		if f.pod == nil {
			delete(s.waiting, f)
		} else {
			s.waiting[f] = struct{}{}
		}
	}
	waiting := slices.Collect(maps.Keys(s.waiting))
	conflicting := s.claims.claim(waiting)
	before := make(map[*file]bool, len(conflicting))
	for f := range conflicting {
		before[f] = f.serving != nil
		released = append(released, s.claims.release(f)...)
		s.claims.drop(f)
		reassigned = append(reassigned, f)
	}
	for _, f := range waiting {
		if _, conflicts := conflicting[f]; !conflicts {
			changed = s.give(f, released) || changed
			reassigned = append(reassigned, f)
		}
	}
	for _, f := range s.ranked(conflicting, released) {
		serves := s.give(f, released)
		changed = changed || serves != before[f]
	}
	if len(waiting) > 0 && len(s.waiting) == 0 {
		s.waiting = make(map[*file]struct{}) // to read a map takes as long as when it was full
	}
	s.record(ctx, released)
	return changed, reassigned
}

// ranked returns the files by rank.
func (s *Set) ranked(files map[*file]struct{}, released []release) []*file {
	ranks := make(map[*file]rank, len(files))
	for f := range files {
		ranks[f] = s.rank(f, released)
	}
	return slices.SortedFunc(maps.Keys(files), func(f, g *file) int {
		a, b := ranks[f], ranks[g]
		return cmp.Or(a.copy-b.copy, a.had-b.had, a.named-b.named, cmp.Compare(a.name, b.name))
	})
}

// give gives the file the claims of its pod, or makes it wait for them. It reports whether the file serves its pod.
func (s *Set) give(f *file, released []release) bool {
	switch taken, owner := s.claims.claimAll(f); {
	case owner != nil:
		f.conflict, f.owner = describeConflict(f, taken, owner), owner
	case s.isTemporary(f, released):
		s.claims.drop(f)
		f.serving, f.unripe = nil, true
		s.postpone(f, f.sig.ctime.Add(s.temporary))
	default:
		if f.since.IsZero() {
			f.since = time.Now()
		}
		f.owner = nil
		delete(s.waiting, f)
		return true
	}
	f.since = time.Time{}
	s.waiting[f] = struct{}{}
	return false
}

// isTemporary reports whether the file is new, looks temporary, and gives a pod that was not there before. Beside a kubelet it
// is not temporary: the kubelet runs the pod.
func (s *Set) isTemporary(f *file, released []release) bool {
	age := time.Since(f.sig.ctime)
	if s.alone == nil || age < 0 || age >= s.temporary {
		return false
	}
	if _, extended := bare(f.name); extended || copyOf(f.name) == "" {
		return false
	}
	needs := claimsOf(f.pod)
	return !slices.ContainsFunc(released, func(r release) bool { return r.claim == needs[0] || r.claim == needs[1] }) && s.alone()
}

// record records and logs which claims went to another file.
func (s *Set) record(ctx context.Context, released []release) {
	for _, r := range released {
		to := s.claims[r.claim]
		switch to {
		case nil:
			delete(s.holders, r.claim)
		case r.by:
		default:
			s.holders.note(r.claim, r.by.name, to.name)
			if s.files[r.by.name] != r.by && r.by.sig.sameFile(to.sig) && time.Since(r.by.since) < brief && copyOf(to.name) == "" {
				s.holders.rename(r.claim, r.by.name, to.name)
			}
			if r.uid == "" {
				s.reporter.TakeOver(ctx, r.namespace, r.name, filepath.Base(r.by.path), to.path)
			}
		}
	}
}

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
