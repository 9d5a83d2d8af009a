// Package deepequal compares values as [reflect.DeepEqual] does, several times faster and
// without allocations. It prepares the comparison once for each type, at the first one.
//
// It is for types without cycles, such as those of the Kubernetes API.
package deepequal

import (
	"reflect"
	"sync"
	"unsafe"
)

// Of returns a function that reports whether two values of the type are deeply equal, as
// reflect.DeepEqual does.
func Of[T any]() func(a, b *T) bool {
	prepared := sync.OnceValue(func() *program { return programs.of(reflect.TypeFor[T]()) })
	return func(a, b *T) bool { return prepared().equal(unsafe.Pointer(a), unsafe.Pointer(b)) }
}

// program is the list of steps that compare values of a type, including nested structs.
type program struct {
	steps []step
	size  uintptr
}

// step compares the values at an offset.
type step struct {
	kind   kind
	offset uintptr
	// size is the size of flat values.
	size uintptr
	// element compares the target of a pointer, or the elements of a slice.
	element *program
	// typ is the type, if reflect compares it.
	typ reflect.Type
}

type kind uint8

const (
	flatByte   kind = iota // one byte
	flatWord               // eight bytes
	flatBytes              // size bytes
	text                   // a string
	pointer                // a pointer to an element
	flatSlice              // a slice of elements of size bytes
	slice                  // a slice of elements
	stringMap              // a map from strings to strings
	otherMap               // a map that is usually nil
	somethings             // anything else
)

// programs are the existing programs.
var programs = cache{made: make(map[reflect.Type]*program)}

type cache struct {
	mu   sync.Mutex
	made map[reflect.Type]*program
}

func (c *cache) of(t reflect.Type) *program {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofLocked(t)
}

func (c *cache) ofLocked(t reflect.Type) *program {
	if p := c.made[t]; p != nil { // it may be incomplete: t contains itself
		return p
	}
	p := &program{size: t.Size()}
	c.made[t] = p
	p.steps = merge(c.stepsLocked(nil, t, 0))
	return p
}

// stepsLocked appends the steps that compare a value of the type at the offset.
func (c *cache) stepsLocked(steps []step, t reflect.Type, offset uintptr) []step {
	s := step{offset: offset, size: t.Size(), typ: t}
	switch {
	case flat(t):
		s.kind = flatBytes
	case t.Kind() == reflect.String:
		s.kind = text
	case t.Kind() == reflect.Pointer:
		s.kind, s.element = pointer, c.ofLocked(t.Elem())
	case t.Kind() == reflect.Slice && flat(t.Elem()):
		s.kind, s.size = flatSlice, t.Elem().Size()
	case t.Kind() == reflect.Slice:
		s.kind, s.element = slice, c.ofLocked(t.Elem())
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		s.kind = stringMap
	case t.Kind() == reflect.Map:
		s.kind = otherMap
	case t.Kind() == reflect.Struct:
		for field := range t.Fields() {
			steps = c.stepsLocked(steps, field.Type, offset+field.Offset)
		}
		return steps
	default:
		s.kind = somethings
	}
	return append(steps, s)
}

// flat reports whether values of the type are equal exactly if their bytes are.
func flat(t reflect.Type) bool {
	switch t.Kind() { //nolint:exhaustive // the others are not
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		end := uintptr(0)
		for field := range t.Fields() {
			if !flat(field.Type) || field.Offset != end { // the padding between fields may have any content
				return false
			}
			end = field.Offset + field.Type.Size()
		}
		return end == t.Size()
	}
	return false
}

// merge merges adjacent steps for flat values.
func merge(steps []step) (merged []step) {
	for _, s := range steps {
		if n := len(merged); n > 0 && s.kind == flatBytes && merged[n-1].kind == flatBytes && merged[n-1].offset+merged[n-1].size == s.offset {
			merged[n-1].size += s.size
			continue
		}
		merged = append(merged, s)
	}
	for i := range merged {
		switch s := &merged[i]; {
		case s.kind == flatBytes && s.size == 1:
			s.kind = flatByte
		case s.kind == flatBytes && s.size == 8:
			s.kind = flatWord
		}
	}
	return merged
}

// header is Go's layout of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// equal reports whether the values at the two addresses are equal.
func (p *program) equal(a, b unsafe.Pointer) bool {
	for i := range p.steps {
		s := &p.steps[i]
		at, bt := unsafe.Add(a, s.offset), unsafe.Add(b, s.offset)
		same := false
		switch s.kind {
		case flatByte:
			same = *(*byte)(at) == *(*byte)(bt)
		case flatWord:
			same = *(*uint64)(at) == *(*uint64)(bt)
		case flatBytes:
			same = sameBytes(at, bt, s.size)
		case text:
			same = *(*string)(at) == *(*string)(bt)
		case pointer:
			pa, pb := *(*unsafe.Pointer)(at), *(*unsafe.Pointer)(bt)
			same = pa == pb || (pa != nil && pb != nil && s.element.equal(pa, pb))
		case flatSlice, slice:
			same = s.sameSlice((*header)(at), (*header)(bt))
		case stringMap:
			same = sameMap(*(*map[string]string)(at), *(*map[string]string)(bt))
		case otherMap:
			same = *(*unsafe.Pointer)(at) == *(*unsafe.Pointer)(bt) || s.reflected(at, bt)
		case somethings:
			same = s.reflected(at, bt)
		}
		if !same {
			return false
		}
	}
	return true
}

// reflected compares with reflect.
func (s *step) reflected(a, b unsafe.Pointer) bool {
	return reflect.DeepEqual(reflect.NewAt(s.typ, a).Elem().Interface(), reflect.NewAt(s.typ, b).Elem().Interface())
}

func sameBytes(a, b unsafe.Pointer, size uintptr) bool {
	return unsafe.String((*byte)(a), size) == unsafe.String((*byte)(b), size)
}

func (s *step) sameSlice(a, b *header) bool {
	switch {
	case a.len != b.len || (a.data == nil) != (b.data == nil):
		return false
	case a.len == 0 || a.data == b.data:
		return true
	case s.kind == flatSlice:
		return sameBytes(a.data, b.data, uintptr(a.len)*s.size)
	}
	for i := range a.len {
		offset := uintptr(i) * s.element.size
		if !s.element.equal(unsafe.Add(a.data, offset), unsafe.Add(b.data, offset)) {
			return false
		}
	}
	return true
}

// sameMap compares maps whose keys and elements have a string type.
func sameMap(a, b map[string]string) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}
