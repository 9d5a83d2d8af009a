package store

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// The content of a frame is protobuf fields, so that a later version can add fields. The
// fields of a set are flat and in order: a pod belongs to the update before it. So generated code can't
// read a set: docs/adr/0016-records-by-hand.md

const (
	// magic and the format version begin each segment, then comes a checksum of both.
	magic         = "podconfd"
	formatVersion = 1
	preambleBytes = int64(len(magic) + 8)
)

// header is the header of a segment.
type header struct {
	Instance, Node, BootID string
	Created                time.Time
	// Latest is the latest time of all earlier sets. The clock may have been set back
	// since then.
	Latest time.Time
	// Passed is the time that had passed when the segment was begun; 0 if it is not known.
	Passed time.Duration
	// Base is the revision of the snapshot that follows.
	Base int64
	// Ceiling is a revision that no revision exceeds yet.
	Ceiling int64
	// Predecessor is the number of the previous segment, 0 for none. PredecessorSize is
	// how much of it counts.
	Predecessor     uint64
	PredecessorSize int64
	// Rolled means that sets were written to the predecessor while this segment was prepared, as earlier versions
	// did. The segment counts once a record in it confirms that it has these sets, too.
	Rolled bool
	// Note is the note of the log.
	Note string
}

func (h *header) fields(c *codec) {
	text(c, 1, &h.Instance)
	text(c, 2, &h.Node)
	text(c, 3, &h.BootID)
	instant(c, 4, &h.Created)
	number(c, 5, &h.Base)
	number(c, headerCeiling, &h.Ceiling)
	number(c, 7, &h.Predecessor)
	number(c, 8, &h.PredecessorSize)
	instant(c, 10, &h.Latest)
	number(c, 11, &h.Passed)
	boolean(c, 9, &h.Rolled)
	text(c, headerNote, &h.Note)
}

// headerCeiling is also the field of a frame that reserves revisions, and headerNote that of a frame with a note.
const (
	headerCeiling protowire.Number = 6
	headerNote    protowire.Number = 12
)

// mark is where a set is in the sequence and in time. A clean stop has the times.
type mark struct {
	first, revision int64
	time            time.Time
	// passed is the time that had passed at the set, or 0.
	passed time.Duration
}

func (m *mark) fields(c *codec) {
	number(c, 1, &m.first)
	number(c, 2, &m.revision)
	instant(c, 3, &m.time)
	number(c, 8, &m.passed)
}

// Messages of a set.
const (
	setUpdate protowire.Number = 4
	setPod    protowire.Number = 5
	setSource protowire.Number = 6
	setNamed  protowire.Number = 7
)

const updateOp protowire.Number = 1

func updateFields(c *codec, u *journal.Update) {
	op := int64(u.Op) + 1
	if number(c, updateOp, &op); c.number == updateOp {
		u.Op = config.PodOperation(op - 1)
	}
	text(c, 2, &u.Source)
	number(c, 3, &u.Revision)
	boolean(c, 4, &u.StatusOnly)
}

// record is a pod as it is stored.
type record struct {
	revision, byName int64
	source           string
	file             *config.File
	// namespace, name and uid are set if there is no object.
	namespace, name string
	uid             types.UID
}

func (r *record) fields(c *codec) {
	number(c, 1, &r.revision)
	number(c, 2, &r.byName)
	text(c, 3, &r.source)
	if c.number == podFile {
		r.file = new(config.File)
	}
	c.message(podFile, r.file != nil, func(c *codec) {
		text(c, 1, &r.file.Path)
		number(c, 2, &r.file.UID)
		number(c, 3, &r.file.GID)
		number(c, 4, &r.file.Mode)
		text(c, 5, &r.file.Before)
	})
	text(c, 5, &r.namespace)
	text(c, 6, &r.name)
	text(c, 7, &r.uid)
}

// sourceUID identifies a pod: versions of the same pod have the same key.
type sourceUID struct {
	source string
	uid    types.UID
}

func keyOf(p *journal.Pod) sourceUID { return sourceUID{p.Source, p.Object.UID} }

// renumbered returns the pods whose name has another revision than the version of the pod.
func renumbered(set *journal.Set) (byName map[sourceUID]int64) {
	for _, c := range set.Names {
		if c.After == nil || c.After.Revision != c.Revision || isVersion(set, c) { // another revision: only its owners changed
			continue
		}
		if byName == nil {
			byName = make(map[sourceUID]int64)
		}
		byName[keyOf(c.After)] = c.Revision
	}
	return byName
}

// isVersion reports whether the pod that a name got is a version that the set made.
func isVersion(set *journal.Set, c journal.Change) bool {
	for _, u := range set.Updates {
		if i := c.Revision - u.First; u.Op.IsConfig() && i >= 0 && i < int64(len(u.Pods)) {
			return u.Pods[i].Revision == c.Revision && keyOf(u.Pods[i]) == keyOf(c.After)
		}
	}
	return false
}

// Messages of a pod.
const (
	podObject protowire.Number = 4
	podFile   protowire.Number = 8
	podStatus protowire.Number = 9
)

func sourceFields(c *codec, s *journal.Source) {
	text(c, 1, &s.Name)
	boolean(c, 2, &s.Seen)
	instant(c, 3, &s.Time)
	attribute := func(key, value string) {
		c.message(sourceAttribute, true, func(c *codec) {
			text(c, 1, &key)
			text(c, 2, &value)
		})
		if c.number == sourceAttribute {
			s.Attributes[key] = value
		}
	}
	switch c.number {
	case sourceAttribute:
		if s.Attributes == nil {
			s.Attributes = make(map[string]string)
		}
		attribute("", "")
	case 0:
		for _, key := range slices.Sorted(maps.Keys(s.Attributes)) {
			attribute(key, s.Attributes[key])
		}
	}
}

const sourceAttribute protowire.Number = 4
