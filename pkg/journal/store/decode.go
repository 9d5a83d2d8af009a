package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/journal"
)

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

func decodeCeiling(body []byte) (ceiling int64, err error) {
	err = decode(body, func(c *codec) { number(c, headerCeiling, &ceiling) })
	return ceiling, err
}

// setDecoder assembles a set, or a snapshot, from its pieces.
type setDecoder struct {
	set *journal.Set
	// passed is the time that had passed at the set, or 0.
	passed time.Duration
}

// add adds the next piece.
func (d *setDecoder) add(body []byte) error {
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

// take returns the set, which is now complete.
func (d *setDecoder) take() *journal.Set {
	set := d.set
	d.set = nil
	return set
}

// pod returns the pod in the field that was read. It has the source, unless it names another one. Its
// revision under its name, if that is another one, is added to the names of the set.
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
	p.TooLarge = r.tooLarge
	if r.byName != 0 {
		d.set.Names = append(d.set.Names, journal.Change{Revision: r.byName, After: p.At(r.byName)})
	}
	return p
}
