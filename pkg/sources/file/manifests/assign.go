package manifests

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"
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
	switch taken, owner := s.claims.take(f); {
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
