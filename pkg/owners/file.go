package owners

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/internal/smallfile"
)

// load reads the file. Its owners are kept as if they had been used until now, and read again as if they had been read now.
func (r *Resolver) load(ctx context.Context) {
	if r.opts.File == "" {
		return
	}
	data, err := smallfile.Read(r.opts.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all []*owner
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not read the known owners of pods, asking the apiserver again", "file", r.opts.File)
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range all {
		if o != nil {
			o.known, o.used, o.backoff = true, now, known(now)
			r.owners[o.ref] = o
		}
	}
}

// savePeriod is the shortest time between two writes of the file: a node can have many short Jobs.
const savePeriod = 10 * time.Second

// saveDue writes the file, unless it is too early for that. It returns the earlier of a time and of when to write the file; zero for
// never.
func (r *Resolver) saveDue(ctx context.Context, due time.Time) time.Time {
	at := r.saved.Add(savePeriod)
	switch {
	case !r.unsaved:
	case !at.After(time.Now()):
		r.save(ctx)
	case due.IsZero() || at.Before(due):
		return at
	}
	return due
}

// save replaces the file if what is known has changed: one line for each owner, those of present pods first. What does not fit is
// left out: it is asked for again.
func (r *Resolver) save(ctx context.Context) {
	if r.opts.File == "" || !r.unsaved {
		return
	}
	var all []*owner
	for _, o := range r.owners { // only this goroutine writes it
		if o.known {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *owner) int {
		if c := cmp.Compare(b.look, a.look); c != 0 {
			return c
		}
		return a.compare(&b.ref)
	})
	var text strings.Builder
	text.WriteString("[")
	for i, o := range all {
		line, _ := json.Marshal(o) // it has only texts
		if text.Len()+len(line) > smallfile.MaxLength-16 {
			break
		}
		if i > 0 {
			text.WriteString(",")
		}
		fmt.Fprintf(&text, "\n%s", line)
	}
	text.WriteString("\n]\n")
	err := smallfile.Replace(r.opts.File, text.String())
	if err != nil && !r.saveFailed {
		klog.FromContext(ctx).Error(err, "Could not store the known owners of pods, trying again after the next change", "file", r.opts.File)
	}
	r.unsaved, r.saveFailed, r.saved = false, err != nil, time.Now()
}
