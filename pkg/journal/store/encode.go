package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podconfigd/podconfigd/pkg/config"
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

// encodeSet returns the frames of a set. passed is the time that has passed; 0 if that follows from the
// clock. It notes in the set which pods are too large.
func encodeSet(s *Set, passed time.Duration) ([]byte, error) {
	start := 0
	c := codec{out: beginFrame(nil, kindPiece)}
	split := func() (err error) {
		if len(c.out)-start > pieceBytes {
			err = endFrame(c.out, start)
			start = len(c.out)
			c.out = beginFrame(c.out, kindPiece)
		}
		return err
	}
	(&mark{s.First, s.Revision, s.Time, passed}).fields(&c)
	for i := range s.Updates {
		u := &s.Updates[i]
		c.message(setUpdate, true, u.fields)
		for k := range u.Pods {
			err := split()
			if err != nil {
				return nil, err
			}
			if c.out, err = appendPod(c.out, &u.Pods[k], u.Op == config.REMOVE, false); err != nil {
				return nil, err
			}
		}
	}
	for i := range s.Named {
		if err := split(); err != nil {
			return nil, err
		}
		p := &s.Named[i]
		c.message(setNamed, true, (&record{source: p.Source, uid: p.Object.UID, byName: p.ByName}).fields)
	}
	for i := range s.Sources {
		c.message(setSource, true, s.Sources[i].fields)
	}
	c.out[start+frameHead] = byte(kindSet)
	return c.out, endFrame(c.out, start)
}

// appendPod appends a pod as a field, and notes whether it is too large. If the update names its source,
// the pod does not need to.
func appendPod(dst []byte, p *Pod, nameOnly, withSource bool) ([]byte, error) {
	r := record{revision: p.Revision, byName: p.ByName, file: p.File}
	if withSource {
		r.source = p.Source
	}
	size := 0
	if !nameOnly {
		size = p.Object.Size()
		r.tooLarge = p.tooLarge(size)
		p.TooLarge, nameOnly = r.tooLarge, r.tooLarge
	}
	if nameOnly {
		r.namespace, r.name, r.uid = p.Object.Namespace, p.Object.Name, p.Object.UID
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
			return nil, fmt.Errorf("encoding the status of pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
		}
		meta.out = appendBytes(meta.out, podStatus, status)
	}
	// The object comes last, and is encoded in place.
	dst = protowire.AppendTag(dst, setPod, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(meta.out)+protowire.SizeTag(podObject)+protowire.SizeBytes(size)))
	dst = append(dst, meta.out...)
	dst = protowire.AppendTag(dst, podObject, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	n := len(dst)
	dst = slices.Grow(dst, size)[:n+size]
	if _, err := p.Object.MarshalToSizedBuffer(dst[n:]); err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
	}
	return dst, nil
}

// tooLarge reports whether only the name of the pod is stored. The size is that of its object.
func (p *Pod) tooLarge(size int) bool {
	if p.Status != nil && size > maxPod/2 {
		size += p.Status.Size()
	}
	return size > maxPod
}

// appendState appends the last frame of a snapshot.
func appendState(dst []byte, sources map[string]Source) ([]byte, error) {
	start := len(dst)
	c := codec{out: beginFrame(dst, kindState)}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s := sources[name]
		c.message(setSource, true, s.fields)
	}
	return c.out, endFrame(c.out, start)
}

// appendCeiling appends the frame that reserves revisions.
func appendCeiling(dst []byte, ceiling int64) []byte {
	return appendRecord(dst, kindCeiling, func(c *codec) { number(c, headerCeiling, &ceiling) })
}

// takeover returns the frame that ends the preparation of a segment.
func takeover() []byte { return appendRecord(nil, kindTakeover, func(*codec) {}) }

// appendStop appends the frame of a clean stop.
func appendStop(dst []byte, now time.Time, passed time.Duration) []byte {
	return appendRecord(dst, kindStop, (&mark{time: now, passed: passed}).fields)
}
