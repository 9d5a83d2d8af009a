package store

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

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
