package cli

import (
	"os/user"
	"strconv"
	"time"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/internal/poddiff"
)

// ChangeOf returns the column CHANGED of a change.
func ChangeOf(r *v1alpha1.HistoryRecord) string {
	changed := poddiff.Summary(r.Changes)
	switch {
	case r.Gap != "":
		return r.Gap
	case r.Name == "" && r.Op == v1alpha1.OpAdd:
		return "first set, nothing changed"
	case len(r.Changes) == 0:
		return ""
	case r.Op == v1alpha1.OpAdd:
		return "recreated: " + changed
	}
	return changed
}

// Owners are the names of users and groups, by "u" or "g" and their number.
type Owners map[string]string

// Columns returns the columns of a change from TIME to MODE.
func (o Owners) Columns(r *v1alpha1.HistoryRecord) []string {
	at, op, source, pod, path, owner, mode := "-", "GAP", "-", "-", "-", "-", "-"
	if r.Time != nil {
		at = r.Time.Local().Format(time.DateTime)
	}
	if r.Gap == "" {
		op = string(r.Op)
	}
	if r.Source != "" {
		source = r.Source
	}
	if r.Name != "" {
		pod = r.Namespace + "/" + r.Name
	}
	if f := r.File; f != nil {
		path, owner, mode = f.Path, o.user(f.UID)+":"+o.group(f.GID), f.Mode
	}
	return []string{at, op, source, pod, path, owner, mode}
}

// user returns the name of a user, or its number if it has no name here.
func (o Owners) user(id uint32) string {
	return o.name("u", id, func(number string) (string, error) {
		u, err := user.LookupId(number)
		if err != nil {
			return "", err
		}
		return u.Username, nil
	})
}

func (o Owners) group(id uint32) string {
	return o.name("g", id, func(number string) (string, error) {
		g, err := user.LookupGroupId(number)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	})
}

func (o Owners) name(kind string, id uint32, lookup func(string) (string, error)) string {
	number := strconv.FormatUint(uint64(id), 10)
	name, ok := o[kind+number]
	if !ok {
		var err error
		if name, err = lookup(number); err != nil {
			name = number
		}
		o[kind+number] = name
	}
	return name
}
