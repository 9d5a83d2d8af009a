package located

import (
	"maps"
	"reflect"
	"strings"

	"github.com/podconfigd/podconfigd/internal/similar"
)

// Nearest returns the known field of the type that is most similar to the last field of the
// path, at the same place; empty if none is similar.
func Nearest(typ reflect.Type, path string) string {
	name := path
	for {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			if typ.Kind() == reflect.Slice {
				_, name, _ = strings.Cut(name, "]")
				name = strings.TrimPrefix(name, ".")
			}
			typ = typ.Elem()
		}
		field, below := name, ""
		if end := strings.IndexAny(name, ".["); end >= 0 {
			field, below = name[:end], strings.TrimPrefix(name[end:], ".")
		}
		known := fieldsOf(typ)
		if known[field] != nil && below != "" {
			typ, name = known[field], below
			continue
		}
		return similar.To(name, maps.Keys(known))
	}
}
