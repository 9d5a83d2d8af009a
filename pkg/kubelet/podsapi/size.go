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
	// maxElements is the maximum number of conditions, containers and addresses together. An encoded one takes 2 bytes or
	// more, and a decoded one takes hundreds.
	maxElements = 4096
)

// isLarge reports whether a status is not even decoded.
func (p *pod) isLarge() bool {
	elements := 0
	_ = fields(p.raw, func(protowire.Number, []byte) error { elements++; return nil }) // decoding returns the error
	return len(p.raw) > maxStatus || elements > maxElements
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
		for i := range v.NumField() {
			size += sizeBehind(v.Field(i))
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
