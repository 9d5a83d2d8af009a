package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// encodeHeader returns the preamble and the frame of the header.
func encodeHeader(h *header) []byte {
	dst := []byte(magic)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint32(dst, checksum(dst[len(dst)-len(magic)-4:]))
	return appendRecord(dst, kindHeader, h.fields)
}

// appendRecord appends a frame of names and numbers.
func appendRecord(dst []byte, k kind, fields func(*codec)) []byte {
	start := len(dst)
	c := codec{out: beginFrame(dst, k)}
	fields(&c)
	_ = endFrame(c.out, start) // it is never too large
	return c.out
}

// pieces encodes a set or a snapshot, in frames of about pieceBytes. start is where the present frame starts.
type pieces struct {
	codec

	kind  kind
	start int
}

func newPieces(dst []byte, k kind) *pieces {
	return &pieces{codec{out: beginFrame(dst, k)}, k, len(dst)}
}

// split begins the next frame if the present one is large enough.
func (p *pieces) split() (err error) {
	if len(p.out)-p.start > pieceBytes {
		err = endFrame(p.out, p.start)
		p.start = len(p.out)
		p.out = beginFrame(p.out, p.kind)
	}
	return err
}

func (p *pieces) source(s journal.Source) {
	p.message(setSource, true, func(c *codec) { sourceFields(c, &s) })
}

// lastFrame ends the last frame, which has another kind.
func (p *pieces) lastFrame(last kind) ([]byte, error) {
	p.out[p.start+frameHead] = byte(last)
	return p.out, endFrame(p.out, p.start)
}

// writeSnapshot writes header and snapshot, about batchBytes at a time.
func writeSnapshot(h *header, t *journal.Table, write func([]byte) error) (err error) {
	c := newPieces(encodeHeader(h), kindPods)
	for p, byName := range t.Pods() {
		if err := c.split(); err != nil {
			return err
		}
		if c.start > batchBytes-pieceBytes {
			if err := write(c.out[:c.start]); err != nil {
				return err
			}
			c.out, c.start = append(c.out[:0], c.out[c.start:]...), 0
		}
		if c.out, err = appendPod(c.out, p, byName, false, true); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Sources())) {
		c.source(t.Sources()[name])
	}
	last, err := c.lastFrame(kindState)
	if err != nil {
		return err
	}
	return write(last)
}

// encodeSet returns the frames of a set. Only the updates with an operation of the config are stored. passed is the time that has
// passed; 0 if the clock is enough to tell it.
func encodeSet(s *journal.Set, passed time.Duration) (frames []byte, err error) {
	c := newPieces(nil, kindPiece)
	(&mark{s.First, s.Revision, s.Time, passed}).fields(&c.codec)
	byName := renumbered(s)
	named := maps.Clone(byName) // those that are in no update
	for _, u := range s.Updates {
		if !u.Op.IsConfig() {
			continue
		}
		c.message(setUpdate, true, func(c *codec) { updateFields(c, u) })
		for _, p := range u.Pods {
			if err := c.split(); err != nil {
				return nil, err
			}
			if c.out, err = appendPod(c.out, p, byName[keyOf(p)], u.Op == config.REMOVE, false); err != nil {
				return nil, err
			}
			delete(named, keyOf(p))
		}
	}
	for _, change := range s.Names {
		if change.After == nil || named[keyOf(change.After)] == 0 {
			continue
		}
		if err := c.split(); err != nil {
			return nil, err
		}
		c.message(setNamed, true, (&record{source: change.After.Source, uid: change.After.Object.UID, byName: change.Revision}).fields)
	}
	for _, source := range s.Sources {
		c.source(source)
	}
	return c.lastFrame(kindSet)
}

// appendPod appends a pod as a field. byName is the revision of its
// name; 0 if it is that of the version. withSource is true if no update before it names the source.
func appendPod(dst []byte, p *journal.Pod, byName int64, nameOnly, withSource bool) ([]byte, error) {
	r := record{revision: p.Revision, byName: byName, file: p.File}
	if withSource {
		r.source = p.Source
	}
	object := p.Merged
	if nameOnly {
		r.namespace, r.name, r.uid = object.Namespace, object.Name, object.UID
	}
	meta := newInner()
	defer inners.Put(meta)
	r.fields(meta)
	if nameOnly {
		return appendBytes(dst, setPod, meta.out), nil
	}
	if p.Status != nil {
		status, err := p.Status.Marshal()
		if err != nil {
			return nil, fmt.Errorf("encoding the status of pod %s/%s: %w", object.Namespace, object.Name, err)
		}
		meta.out = appendBytes(meta.out, podStatus, status)
	}
	// The object comes last, and is encoded in place.
	size := object.Size()
	dst = protowire.AppendTag(dst, setPod, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(meta.out)+protowire.SizeTag(podObject)+protowire.SizeBytes(size)))
	dst = append(dst, meta.out...)
	dst = protowire.AppendTag(dst, podObject, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	n := len(dst)
	dst = slices.Grow(dst, size)[:n+size]
	if _, err := object.MarshalToSizedBuffer(dst[n:]); err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", object.Namespace, object.Name, err)
	}
	return dst, nil
}

// appendCeiling appends the frame that reserves revisions.
func appendCeiling(dst []byte, ceiling int64) []byte {
	return appendRecord(dst, kindCeiling, func(c *codec) { number(c, headerCeiling, &ceiling) })
}

// encodeNote returns the frame with a note.
func encodeNote(note string) []byte {
	return appendRecord(nil, kindNote, func(c *codec) { text(c, headerNote, &note) })
}

// appendStop appends the frame of a clean stop.
func appendStop(dst []byte, now time.Time, passed time.Duration) []byte {
	return appendRecord(dst, kindStop, (&mark{time: now, passed: passed}).fields)
}

// readPreamble reads the start of a segment, and returns the format version.
func readPreamble(r io.Reader) (uint32, error) {
	var b [preambleBytes]byte
	if n, err := io.ReadFull(r, b[:]); err != nil {
		if magic[:min(n, len(magic))] == string(b[:min(n, len(magic))]) {
			return 0, errTorn
		}
		return 0, errForeign
	}
	if string(b[:len(magic)]) != magic {
		return 0, errForeign
	}
	sum := len(b) - 4
	if checksum(b[:sum]) != binary.LittleEndian.Uint32(b[sum:]) {
		return 0, fmt.Errorf("%w: wrong checksum of the format version", errDamaged)
	}
	return binary.LittleEndian.Uint32(b[len(magic):]), nil
}

func decodeHeader(body []byte) (*header, error) {
	h := new(header)
	err := decode(body, h.fields)
	if err == nil && h.Instance == "" {
		err = fmt.Errorf("%w: no instance in the header", errDamaged)
	}
	return h, err
}

// setDecoder assembles a set, or a snapshot, from its pieces.
type setDecoder struct {
	set *journal.Set
	// passed is the time that had passed at the set, or 0.
	passed time.Duration
}

// decodePiece adds the next piece.
func (d *setDecoder) decodePiece(body []byte) error {
	if d.set == nil {
		d.set, d.passed = new(journal.Set), 0
	}
	set := d.set
	m := mark{set.First, set.Revision, set.Time, d.passed}
	c := codec{rest: body}
	for c.next() {
		m.fields(&c)
		switch c.number {
		case setUpdate:
			u := &journal.Update{First: m.first}
			if n := len(set.Updates); n > 0 {
				u.First = set.Updates[n-1].Revision + 1
			}
			c.err = decode(c.bytes, func(c *codec) { updateFields(c, u) })
			set.Updates = append(set.Updates, u)
		case setPod:
			if len(set.Updates) == 0 {
				return fmt.Errorf("%w: a pod without an update", errDamaged)
			}
			u := set.Updates[len(set.Updates)-1]
			u.Pods = append(u.Pods, d.pod(&c, u.Source))
		case setNamed:
			d.pod(&c, "")
		case setSource:
			var source journal.Source
			c.err = decode(c.bytes, func(c *codec) { sourceFields(c, &source) })
			set.Sources = append(set.Sources, source)
		}
	}
	set.First, set.Revision, set.Time, d.passed = m.first, m.revision, m.time, m.passed
	return c.err
}

// completeSet returns the set, which is now complete.
func (d *setDecoder) completeSet() *journal.Set {
	set := d.set
	d.set = nil
	return set
}

// pod returns the pod in the field that was read. Its source is the given one, unless the field has one.
// If its name has another revision, this becomes a change of a name in the set.
func (d *setDecoder) pod(c *codec, source string) *journal.Pod {
	r, object := record{source: source}, new(v1.Pod)
	var status *v1.PodStatus
	c.err = decode(c.bytes, func(c *codec) {
		r.fields(c)
		switch c.number {
		case podObject:
			if err := object.Unmarshal(c.bytes); err != nil {
				c.err = fmt.Errorf("%w: a pod: %w", errDamaged, err)
			}
		case podStatus:
			status = new(v1.PodStatus)
			if err := status.Unmarshal(c.bytes); err != nil {
				c.err = fmt.Errorf("%w: the status of a pod: %w", errDamaged, err)
			}
		}
	})
	if r.uid != "" || r.name != "" {
		object.Namespace, object.Name, object.UID = r.namespace, r.name, r.uid
	}
	p := journal.NewStored(r.source, object, status, r.revision, r.file)
	if r.byName != 0 {
		d.set.Names = append(d.set.Names, journal.Change{Revision: r.byName, After: p.At(r.byName)})
	}
	return p
}
