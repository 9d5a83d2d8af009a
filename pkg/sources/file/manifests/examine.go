package manifests

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/pkg/sources/file/follow"
)

// examine reads the named files and updates the set. It reports whether the set changed.
func (s *Set) examine(ctx context.Context, names []string) (changed bool) {
	if len(names) == 0 {
		return false
	}
	slices.Sort(names)
	names = slices.Compact(names)
	files := make([]*file, len(names))
	for i, name := range names {
		if files[i] = s.files[name]; files[i] == nil {
			files[i] = s.addFile(name)
		}
	}
	sights := s.lookAll(files)
	now := time.Now()
	var renewed []*file
	for i, f := range files {
		if s.apply(f, &sights[i], now) {
			renewed = append(renewed, f)
			s.renewed(f)
		}
	}
	changed, reassigned := s.assign(ctx, renewed)
	for f := range s.waiting {
		if f.verdict.State == "" { // the file that has its name was missing
			reassigned = append(reassigned, f)
		}
	}
	slices.SortFunc(reassigned, func(a, b *file) int { return strings.Compare(a.name, b.name) })
	for _, f := range slices.Concat(files, reassigned) {
		s.serve(f)
		s.pass(ctx, f)
	}
	s.reporter.Flush(ctx)
	return changed
}

// lookAll looks at all the files. Files whose pod has a name or a UID of another file come last: if two pods have the
// same name, the pod that is decoded first is compared with the sandbox of that name.
func (s *Set) lookAll(files []*file) []sight {
	sights := make([]sight, len(files))
	lookAt := func(i int) {
		f := files[i]
		if (f.name == follow.Single) == s.dir {
			sights[i].gone = true // the path changed between a file and a directory
			return
		}
		l := s.looker
		l.as = f.as
		l.impatient = l.impatient || !f.busySince.IsZero() && time.Since(f.busySince) > busyLimit
		sights[i] = l.look(f.path, f.knowledge)
	}
	isShadowed := func(f *file) bool { return f.conflict != "" }
	if !slices.ContainsFunc(files, isShadowed) {
		each(len(files), lookAt)
		return sights
	}
	for _, shadowed := range [...]bool{false, true} {
		each(len(files), func(i int) {
			if isShadowed(files[i]) == shadowed {
				lookAt(i)
			}
		})
	}
	return sights
}

// each calls do with 0 to n-1, in parallel if they are many. It returns when all calls have.
func each(n int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n/4)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// apply applies the result of a look to the file. It reports whether the file has another
// pod now, or none any more.
func (s *Set) apply(f *file, seen *sight, now time.Time) (renewed bool) {
	if seen.gone {
		return s.applyGone(f, now)
	}
	f.missing = false
	if seen.busy {
		if f.busySince.IsZero() {
			f.busySince = now
		}
		f.busyWait = min(max(2*f.busyWait, busyRetry), busyRetryMax)
		s.postpone(f, now.Add(f.busyWait))
		return false
	}
	f.busyWait, f.busySince = 0, time.Time{}
	if seen.starved {
		f.starvedWait = min(max(2*f.starvedWait, starvedRetry), starvedRetryMax)
		s.postpone(f, now.Add(f.starvedWait))
	} else {
		f.starvedWait = 0
		delete(s.pending, f)
	}
	f.knowledge = seen.knowledge
	unripe := f.unripe
	f.unripe = false
	if seen.same {
		return unripe
	}
	f.fault, f.warnings = seen.fault, seen.warnings
	switch {
	case seen.fault == nil:
		// A file that could not be read for a moment is decoded again. An unchanged pod keeps its pointer, so
		// that the merge does not compare it.
		if !reflect.DeepEqual(f.pod, seen.pod) {
			f.pod = seen.pod
		}
		if f.source == nil || *f.source != *seen.file {
			f.source = seen.file
		}
		return true
	case f.serving == nil:
		f.pod = nil // a rejected pod: there is nothing to hold
		delete(s.waiting, f)
	}
	return false
}

func (s *Set) applyGone(f *file, now time.Time) (renewed bool) {
	f.busyWait, f.busySince, f.starvedWait = 0, time.Time{}, 0
	if f.serving != nil && s.inGrace(f, now) {
		return false
	}
	f.pod, f.missing = nil, false
	s.drop(f)
	return true
}

// inGrace reports whether a missing file may still come back.
func (s *Set) inGrace(f *file, now time.Time) bool {
	if !f.missing {
		f.missing = true
		s.postpone(f, now.Add(removalGrace))
	}
	return f.due.After(now)
}

func (s *Set) postpone(f *file, due time.Time) {
	f.due = due
	s.pending[f] = struct{}{}
}

// Reasons in addition to the reasons in packages manifest and sources.
const (
	reasonDirectory    = "IsDirectory"
	reasonNotRegular   = "NotRegular"
	reasonUnreadable   = "Unreadable"
	reasonDanglingLink = "DanglingLink"
	reasonCyclicLink   = "CyclicLink"
)

// fault is a reason, and the faults of a manifest. namespace and name are the name of its pod; empty
// if it is not known. lines are the lines around the first fault.
type fault struct {
	reason          string
	faults          []manifest.Fault
	namespace, name string
	lines           *v1alpha1.ManifestFault
	// foreign means that the file is not meant as a pod.
	foreign bool
}

func newFault(reason, message string) *fault {
	return &fault{reason: reason, faults: []manifest.Fault{{Message: message}}}
}

// faultOf returns the fault for an error, without the path, which the verdict has.
func faultOf(err error) *fault {
	if refused, ok := errors.AsType[*manifest.Error](err); ok {
		return &fault{reason: string(refused.Reason), faults: refused.Faults, namespace: refused.Namespace, name: refused.Name, foreign: refused.Foreign}
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return newFault(reasonCyclicLink, "its symbolic links form a cycle")
	case errors.Is(err, fs.ErrNotExist):
		return newFault(reasonDanglingLink, "a symbolic link to something that does not exist")
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return newFault(reasonUnreadable, "can't be read: "+err.Error())
}

// notRegular returns the fault for something that is not a regular file.
func notRegular(mode fs.FileMode) *fault {
	kind := "neither a file nor a link to one"
	switch {
	case mode.IsDir():
		return &fault{reason: reasonDirectory, faults: []manifest.Fault{{Message: "a directory: subdirectories are not read"}}, foreign: true}
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return &fault{reason: reasonNotRegular, faults: []manifest.Fault{{Message: kind + ": only regular files are read"}}, foreign: true}
}
