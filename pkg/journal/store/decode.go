package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
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
	set *Set
	// passed is the time that had passed at the set, or 0.
	passed time.Duration
}

// add adds the next piece.
func (d *setDecoder) add(body []byte) error {
	if d.set == nil {
		d.set, d.passed = new(Set), 0
	}
	set := d.set
	m := mark{set.First, set.Revision, set.Time, d.passed}
	c := codec{rest: body}
	for c.next() {
		m.fields(&c)
		switch c.number {
		case setUpdate:
			set.Updates = append(set.Updates, Update{})
			c.err = decode(c.bytes, set.Updates[len(set.Updates)-1].fields)
		case setPod:
			if len(set.Updates) == 0 {
				return fmt.Errorf("%w: a pod without an update", errDamaged)
			}
			u := &set.Updates[len(set.Updates)-1]
			u.Pods = append(u.Pods, c.pod(u.Source))
		case setNamed:
			set.Named = append(set.Named, c.pod(""))
		case setSource:
			set.Sources = append(set.Sources, Source{})
			c.err = decode(c.bytes, set.Sources[len(set.Sources)-1].fields)
		}
	}
	set.First, set.Revision, set.Time, d.passed = m.first, m.revision, m.time, m.passed
	return c.err
}

// take returns the set, which is now complete.
func (d *setDecoder) take() *Set {
	set := d.set
	d.set = nil
	return set
}

// pod returns the pod in the field that was read. It has the source, unless it names another one.
func (c *codec) pod(source string) Pod {
	r, p := record{source: source}, Pod{Object: new(v1.Pod)}
	in := codec{rest: c.bytes}
	for in.next() {
		r.fields(&in)
		switch in.number {
		case podObject:
			if err := p.Object.Unmarshal(in.bytes); err != nil {
				in.err = fmt.Errorf("%w: a pod: %w", errDamaged, err)
			}
		case podStatus:
			p.Status = new(v1.PodStatus)
			if err := p.Status.Unmarshal(in.bytes); err != nil {
				in.err = fmt.Errorf("%w: the status of a pod: %w", errDamaged, err)
			}
		}
	}
	c.err = in.err
	p.Source, p.Revision, p.ByName, p.File, p.TooLarge = r.source, r.revision, r.byName, r.file, r.tooLarge
	if r.uid != "" || r.name != "" {
		p.Object.Namespace, p.Object.Name, p.Object.UID = r.namespace, r.name, r.uid
	}
	return p
}
