package podsapi

import (
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
)

const (
	// maxStatus is the maximum memory that the status of a pod takes, in bytes. A status that takes more is not used. The
	// apiserver takes pods of 1.5 MiB.
	maxStatus = 4 << 20
	// maxElements is the maximum number of conditions, containers and addresses together. maxInner is the maximum number of
	// fields that may be a message or a text, down to maxDepth. Such a field takes 2 bytes or more if it is encoded, and
	// hundreds if it is decoded.
	maxElements = 4096
	maxInner    = 16 * maxElements
	maxDepth    = 8
)

// isLarge reports whether a status is not even decoded.
func (p *pod) isLarge() bool {
	return len(p.raw) > maxStatus || elements(p.raw, 1) > maxElements || elements(p.raw, maxDepth) > maxInner
}

// elements returns the number of length-delimited fields of a message and, down to a depth, of the fields inside them.
// It stops when there are too many.
func elements(data []byte, depth int) (n int) {
	_ = fields(data, func(_ protowire.Number, value []byte) error { // decoding returns the error
		if n++; depth > 1 {
			n += elements(value, depth-1)
		}
		if n > maxInner {
			return errEncoding
		}
		return nil
	})
	return n
}

// sizeOf returns the memory that a status takes, in bytes.
func sizeOf(status *v1.PodStatus) int { return sizeBehind(reflect.ValueOf(status)) }

// sizeBehind returns the memory behind the pointers of a value.
func sizeBehind(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		size = v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			size = int(v.Type().Elem().Size()) + sizeBehind(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() { // all have the same location
			return 0
		}
		for _, field := range v.Fields() {
			size += sizeBehind(field)
		}
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			size += sizeBehind(v.Index(i))
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			size += int(v.Type().Key().Size()+v.Type().Elem().Size()) + sizeBehind(each.Key()) + sizeBehind(each.Value())
		}
	default: // it has no pointers, or is not in a status
	}
	return size
}
