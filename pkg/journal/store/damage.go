package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// verify checks the checksums of one segment that the start did not read. A damaged one is
// set aside.
func (l *Log) verify() {
	l.mu.Lock()
	i := slices.IndexFunc(l.segments, func(s *segment) bool { return !s.verified })
	if i < 0 {
		l.mu.Unlock()
		return
	}
	s := l.segments[i]
	s.verified = true
	until, next := int64(math.MaxInt64), l.current
	if i+1 < len(l.segments) {
		next = l.segments[i+1]
	}
	if next != nil && next.follows(s) {
		until = next.header.PredecessorSize
	}
	l.mu.Unlock()

	if s.header.BootID != l.opts.BootID { // its end may be lost: the next one was begun before this one was synced
		until = math.MaxInt64
	}
	err := verifySegment(l.opts.FS, l.opts.Dir, s, until)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return
	case !errors.Is(err, errDamaged):
		l.logger.Error(err, "Reading an old segment of the journal failed", "file", s.name)
		return
	}
	aside, asideErr := setAside(l.opts.FS, l.opts.Dir, s.name, labelDamaged, l.opts.Now())
	l.logger.Error(errors.Join(err, asideErr), "An old segment of the journal is damaged; the history has a hole", "file", s.name, "aside", aside)
	if aside == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = slices.DeleteFunc(l.segments, func(other *segment) bool { return other == s })
}

// verifySegment checks the checksums of a segment up to an offset. If no segment says how much of it
// counts, a write to it may have been cut.
func verifySegment(fsys FS, dir string, s *segment, until int64) error {
	_, file, err := openSegment(fsys, dir, s.number, s.name)
	if err == nil {
		for err == nil && file.offset < until {
			_, _, err = file.next()
		}
		err = cmp.Or(err, file.file.Close())
	}
	if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
		if until == math.MaxInt64 {
			return nil
		}
		return fmt.Errorf("%w: it is shorter than %d bytes", errDamaged, until)
	}
	return err
}

// Labels of files that are set aside.
const (
	labelDamaged = "damaged"
	labelNode    = "othernode"
)

// takeBack uses the segments of this node again that were set aside as those of another node: the machine had another name in
// between.
func (r *recovery) takeBack(names []string) {
	for _, name := range names {
		number, _, ok := segmentNumber(name)
		if !ok || !strings.HasPrefix(name, segmentName(number)+"."+labelNode+"-") {
			continue
		}
		s, err := headOf(r.fs, r.dir, number, name)
		if err != nil || s.header.Node != r.node {
			continue
		}
		if err := r.fs.Rename(filepath.Join(r.dir, name), filepath.Join(r.dir, segmentName(number))); err != nil {
			r.problems = append(r.problems, Problem{File: name, Err: fmt.Errorf("using a segment of this node again: %w", err)})
			continue
		}
		s.name = segmentName(number)
		r.keep(s)
		r.distrust = "the machine had another name, and what was set aside then is used again"
	}
}

// reject leaves a segment out. The file is kept under another name.
func (r *recovery) reject(s *segment, err error) {
	r.segments = slices.DeleteFunc(r.segments, func(other *segment) bool { return other == s })
	label := ""
	switch {
	case errors.Is(err, errTorn):
		r.leftovers = append(r.leftovers, s)
		return
	case errors.Is(err, errDamaged):
		label = labelDamaged
	case errors.Is(err, errForeign):
		label = "foreign"
	case errors.Is(err, errNewer):
		label = "newer"
	case errors.Is(err, errNode):
		label = labelNode
	}
	if label == "" {
		r.unread = append(r.unread, s)
	}
	problem := Problem{File: s.name, Err: err}
	r.distrust = cmp.Or(r.distrust, s.name+": "+err.Error())
	if label != "" {
		aside, err := setAside(r.fs, r.dir, s.name, label, r.now)
		problem.Aside = aside
		if err != nil {
			problem.Err = errors.Join(problem.Err, err)
		}
	}
	r.problems = append(r.problems, problem)
}

// setAside renames a file that is no longer used, and returns its new name.
func setAside(fsys FS, dir, name, label string, now time.Time) (string, error) {
	aside := fmt.Sprintf("%s.%s-%s", name, label, now.UTC().Format("20060102T150405Z"))
	names, err := fsys.List(dir)
	for slices.Contains(names, aside) {
		aside += "+"
	}
	if err == nil {
		err = fsys.Rename(filepath.Join(dir, name), filepath.Join(dir, aside))
	}
	if err != nil {
		return "", fmt.Errorf("setting %s aside: %w", name, err)
	}
	return aside, errors.Join(dropAside(fsys, dir, label), fsys.SyncDir(dir))
}

// maxAside is the maximum number of files that are kept for one reason to set them aside.
const maxAside = 4

// dropAside removes the oldest files that were set aside with a label, beyond maxAside.
func dropAside(fsys FS, dir, label string) error {
	names, err := fsys.List(dir)
	names = slices.DeleteFunc(names, func(name string) bool {
		_, aside, ok := segmentNumber(name)
		return !ok || !aside || !strings.Contains(name, segmentSuffix+"."+label+"-")
	})
	slices.Sort(names) // by the numbers of the segments, which grow
	for len(names) > maxAside && err == nil {
		err = fsys.Remove(filepath.Join(dir, names[0]))
		names = names[1:]
	}
	return err
}
