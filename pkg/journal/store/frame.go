package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A frame starts with frameHead bytes: the length of its body, the body's checksum, and
// the checksum of these two. So a flipped bit in a length is never mistaken for an
// incomplete frame. The first byte of the body is its kind.
const (
	frameHead = 12
	// pieceBytes is the size after which a set continues in another frame. So a frame has at most one larger pod.
	pieceBytes = 256 << 10
)

// kind is the kind of a frame.
type kind byte

const (
	kindHeader kind = 'H'
	// kindPods is a piece of the snapshot, and kindState its end.
	kindPods  kind = 'p'
	kindState kind = 'P'
	// kindPiece is a piece of a set, and kindSet its end.
	kindPiece kind = 's'
	kindSet   kind = 'S'
	// kindTakeover means that the segment has all sets of its predecessor. Earlier versions wrote it.
	kindTakeover kind = 'T'
	// kindCeiling reserves revisions.
	kindCeiling kind = 'C'
	// kindNote replaces the note.
	kindNote kind = 'N'
	// kindStop ends a segment whose process stopped cleanly.
	kindStop kind = 'E'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// beginFrame appends an empty head and the kind. endFrame fills in the head.
func beginFrame(dst []byte, k kind) []byte {
	return append(append(dst, make([]byte, frameHead)...), byte(k))
}

// endFrame fills in the head of the frame that starts at the offset. It returns an error if the size of the body
// does not fit into the head.
func endFrame(dst []byte, start int) error {
	head, body := dst[start:start+frameHead], dst[start+frameHead:]
	if uint64(len(body)) > math.MaxUint32 {
		return fmt.Errorf("a record has %d bytes, and can have %d", len(body), uint32(math.MaxUint32))
	}
	binary.LittleEndian.PutUint32(head, uint32(len(body)))
	binary.LittleEndian.PutUint32(head[4:], checksum(body))
	binary.LittleEndian.PutUint32(head[8:], checksum(head[:8]))
	return nil
}

var (
	// errTorn means that the file ends within a frame.
	errTorn = errors.New("the file ends within a frame")
	// errDamaged means that a checksum is wrong, or that the protected data can't be
	// read.
	errDamaged = errors.New("damaged")
)

// frameReader reads the frames of a file.
type frameReader struct {
	r *bufio.Reader
	// offset is the start of the next frame. size is the end of the file.
	offset, size int64
	body         []byte
}

// next returns the next frame. Its body is valid until the next call. The error is io.EOF
// at the end, errTorn, errDamaged, or a read error.
func (f *frameReader) next() (kind, []byte, error) {
	left := f.size - f.offset
	if left == 0 {
		return 0, nil, io.EOF
	}
	if left < frameHead {
		return 0, nil, errTorn
	}
	var head [frameHead]byte
	if err := f.fill(head[:]); err != nil {
		return 0, nil, err
	}
	length := int64(binary.LittleEndian.Uint32(head[:]))
	switch {
	case checksum(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || length == 0:
		return 0, nil, fmt.Errorf("%w at byte %d: not the head of a frame", errDamaged, f.offset)
	case length > left-frameHead:
		return 0, nil, errTorn
	}
	if int64(cap(f.body)) < length {
		f.body = make([]byte, length)
	}
	f.body = f.body[:length]
	if err := f.fill(f.body); err != nil {
		return 0, nil, err
	}
	if checksum(f.body) != binary.LittleEndian.Uint32(head[4:]) {
		return 0, nil, fmt.Errorf("%w at byte %d: wrong checksum", errDamaged, f.offset)
	}
	f.offset += frameHead + length
	return kind(f.body[0]), f.body[1:], nil
}

// fill reads bytes that must be there. A file that has become shorter is torn.
func (f *frameReader) fill(p []byte) error {
	_, err := io.ReadFull(f.r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// codec encodes and decodes messages. A message has one function for both, which calls number, text
// and so on for all of its fields, in the order in which they are written. While the codec encodes,
// each call appends the field. While it decodes, only the call for the field that was read takes it.
type codec struct {
	// out is what was appended.
	out []byte

	// number is the number of the field that was read; 0 while fields are appended. The field has
	// either a value or bytes. rest is the part of the message after it.
	number protowire.Number
	value  uint64
	bytes  []byte
	rest   []byte
	err    error
}

// inners append the messages that are fields. They are used again.
var inners = sync.Pool{New: func() any { return new(codec) }}

// newInner returns an empty codec from inners.
func newInner() *codec {
	c, _ := inners.Get().(*codec) // it has no others
	c.out = c.out[:0]
	return c
}

// next reads the next field. It returns false at the end, or with an error. It skips fields with
// other wire types, which are from a later version.
func (c *codec) next() bool {
	for len(c.rest) > 0 && c.err == nil {
		number, wireType, n := protowire.ConsumeTag(c.rest)
		if n < 0 {
			return c.broken(n)
		}
		c.rest, c.number, c.value, c.bytes = c.rest[n:], number, 0, nil
		switch wireType {
		case protowire.VarintType:
			c.value, n = protowire.ConsumeVarint(c.rest)
		case protowire.BytesType:
			c.bytes, n = protowire.ConsumeBytes(c.rest)
		default:
			c.number = -1
			n = protowire.ConsumeFieldValue(number, wireType, c.rest)
		}
		if n < 0 {
			return c.broken(n)
		}
		c.rest = c.rest[n:]
		if c.number > 0 {
			return true
		}
	}
	return false
}

func (c *codec) broken(n int) bool {
	c.err = fmt.Errorf("%w: %w", errDamaged, protowire.ParseError(n))
	return false
}

// number is a field with a number. 0 is not written.
func number[T ~int64 | ~uint32 | ~uint64](c *codec, n protowire.Number, v *T) {
	switch {
	case c.number == n:
		*v = T(c.value)
	case c.number == 0 && *v != 0:
		c.out = protowire.AppendVarint(protowire.AppendTag(c.out, n, protowire.VarintType), uint64(*v))
	}
}

// boolean is a field with a bool. False is not written.
func boolean(c *codec, n protowire.Number, v *bool) {
	switch {
	case c.number == n:
		*v = c.value != 0
	case c.number == 0 && *v:
		c.out = protowire.AppendVarint(protowire.AppendTag(c.out, n, protowire.VarintType), 1)
	}
}

// instant is a field with a time. The zero time is not written.
func instant(c *codec, n protowire.Number, v *time.Time) {
	switch {
	case c.number == n:
		*v = time.Unix(0, int64(c.value)).UTC()
	case c.number == 0 && !v.IsZero():
		value := v.UnixNano()
		number(c, n, &value)
	}
}

// text is a field with a string. An empty one is not written.
func text[T ~string](c *codec, n protowire.Number, v *T) {
	switch {
	case c.number == n:
		*v = T(c.bytes)
	case c.number == 0 && *v != "":
		c.out = protowire.AppendString(protowire.AppendTag(c.out, n, protowire.BytesType), string(*v))
	}
}

// message is a field with a message, which has these fields. With present false, it is not written.
func (c *codec) message(n protowire.Number, present bool, fields func(*codec)) {
	switch {
	case c.number == n:
		c.err = decode(c.bytes, fields)
	case c.number == 0 && present:
		inner := newInner()
		fields(inner)
		c.out = appendBytes(c.out, n, inner.out)
		inners.Put(inner)
	}
}

// decode reads the fields of a message.
func decode(message []byte, fields func(*codec)) error {
	c := codec{rest: message}
	for c.next() {
		fields(&c)
	}
	return c.err
}

func appendBytes(to []byte, n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, n, protowire.BytesType), value)
}
