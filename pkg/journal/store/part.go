package store

import (
	"cmp"
	"errors"
	"io/fs"
	"math"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// part yields the records of a segment.
type part struct {
	*historian
	*segment

	yield func(Record, error) bool
	// pods are the present ones. end is where the records end.
	pods map[sourceUID]*journal.Pod
	end  tail
	// removed are the pods that the current set has removed. added are the names that it
	// adds.
	removed map[nameKey]*journal.Pod
	added   map[nameKey]bool
}

type nameKey struct{ source, namespace, name string }

// records yields the records. missing is the reason why it could not read all, or empty.
func (p *part) records(i int) (missing string, err error) {
	if err := p.faults[p.segment]; err != nil {
		return p.name + ": " + err.Error(), nil
	}
	_, file, err := openSegment(p.fs, p.dir, p.number, p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.gone()
	case err != nil:
		return p.name + ": " + err.Error(), nil
	}
	defer file.file.Close()
	snapshot, err := file.snapshot(true)
	switch {
	case errors.Is(err, errTorn): // a daemon is writing it, or ended here
		return "", nil
	case err != nil:
		return p.name + ": " + err.Error(), nil
	}
	away := p.aside[cmp.Or(p.header.Predecessor, p.number-1)] // all before the first one may be set aside
	if i == 0 && away != "" {
		if err := p.putGap(p.header, away+" was set aside"); err != nil {
			return "", err
		}
	}
	p.begun = true
	for _, pod := range snapshot.Updates[0].Pods {
		p.pods[keyOf(pod)] = pod
	}
	until, next := int64(math.MaxInt64), p.next(i)
	if next != nil && next.header != nil && next.follows(p.segment) {
		until = next.header.PredecessorSize
	}
	p.end = file.sets(p.segment, until, p.set)
	switch {
	case errors.Is(p.end.err, errEnough):
		return "", errEnough
	case p.end.err != nil && !errors.Is(p.end.err, errTorn):
		missing = p.name + ": " + p.end.err.Error()
	}
	return missing, nil
}

// gone returns why the records of a segment are missing that was deleted in the meantime, because it was too old.
func (p *part) gone() (missing string, err error) {
	if p.opts.Instance != "" {
		return "", ErrCompacted
	}
	if p.opts.Newest || !p.begun || p.deleted {
		return "", errEnough
	}
	p.deleted = true
	return "updates were deleted in the meantime, because they are too old or too large", nil
}

// gap yields a gap if changes are missing between the segment and the next one.
func (p *part) gap(next *segment, missing string) error {
	switch {
	case next == nil && missing == "", next != nil && next.header == nil: // it has a gap itself
		return nil
	case next == nil:
		r := Record{Time: p.end.time, Revision: p.end.revision, Gap: missing}
		if p.header != nil {
			r.Instance = p.header.Instance
		}
		return p.put(r)
	case p.header != nil && p.header.Instance != next.header.Instance:
		missing = cmp.Or(missing, "a new instance began: updates may be missing")
	case p.end.revision != next.header.Base:
		missing = cmp.Or(missing, "updates were not stored")
	default:
		return nil
	}
	if away := p.aside[next.header.Predecessor]; away != "" {
		missing = away + " was set aside"
	}
	return p.putGap(next.header, missing)
}

// putGap yields a gap before a segment.
func (p *part) putGap(next *header, missing string) error {
	if next.Created.Before(p.opts.Since) || next.Base <= p.opts.After {
		return nil
	}
	return p.put(Record{Time: next.Created, Instance: next.Instance, Revision: next.Base, Gap: missing})
}

func (p *part) put(r Record) error {
	if !p.yield(r, nil) {
		return errEnough
	}
	return nil
}

// set yields the records of a set.
func (p *part) set(set *journal.Set) error {
	p.names(set)
	for _, u := range set.Updates {
		if len(u.Pods) == 0 {
			if err := p.change(set, u, u.Revision, nil); err != nil {
				return err
			}
		}
		for k, pod := range u.Pods {
			if err := p.change(set, u, u.First+int64(k), pod); err != nil {
				return err
			}
			if p.pods[keyOf(pod)] = pod; u.Op == config.REMOVE {
				delete(p.pods, keyOf(pod))
			}
		}
	}
	return nil
}

// names finds the names that a set adds.
func (p *part) names(set *journal.Set) {
	clear(p.removed)
	clear(p.added)
	for i, u := range set.Updates {
		if i == 0 || u.Op != config.ADD {
			continue // nothing was removed before
		}
		for _, pod := range u.Pods {
			p.added[nameKey{u.Source, pod.Object.Namespace, pod.Object.Name}] = true
		}
	}
}

// change yields the record of one pod of an update, or of an update without pods.
func (p *part) change(set *journal.Set, u *journal.Update, revision int64, pod *journal.Pod) error {
	r := Record{Time: set.Time, Instance: p.header.Instance, Revision: revision, Update: u.Revision, Op: u.Op, Source: u.Source, Pod: pod}
	if pod != nil {
		name := nameKey{u.Source, pod.Object.Namespace, pod.Object.Name}
		r.Before = p.pods[keyOf(pod)]
		switch {
		case u.Op == config.REMOVE && r.Before != nil:
			r.Pod = r.Before
			r.Replaced = p.added[name]
			p.removed[name] = r.Before
		case u.Op == config.ADD && r.Before == nil:
			r.Before = p.removed[name]
		}
	}
	if set.Time.Before(p.opts.Since) || revision <= p.opts.After {
		return nil
	}
	return p.put(r)
}
