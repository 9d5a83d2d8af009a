package configfile

import (
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/internal/option"
)

// lookUp returns the value at a path. For an item of a list, it returns the list, because a
// list replaces the whole list of the layers below.
func lookUp(value any, path string) (found any, is bool) {
	object, isObject := value.(map[string]any)
	if path == "" || !isObject {
		return value, path == "" || value != nil
	}
	name, rest, ok := member(object, path)
	if !ok {
		return nil, false
	}
	return lookUp(object[name], rest)
}

// drop removes the value at the path from the closest object with a field for it, and returns
// the path of that field.
func drop(value any, path string) (dropped string) {
	switch value := value.(type) {
	case []any:
		index, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && i < len(value) {
			rest = strings.TrimPrefix(rest, ".")
			if below := drop(value[i], rest); below != "" {
				return path[:len(path)-len(rest)+len(below)]
			}
		}
	case map[string]any:
		name, rest, ok := member(value, path)
		if !ok {
			return ""
		}
		if below := drop(value[name], rest); below != "" {
			return path[:len(path)-len(rest)+len(below)]
		}
		delete(value, name)
		return strings.TrimSuffix(path[:len(path)-len(rest)], ".")
	}
	return ""
}

// member returns the name of the longest member with which the path starts, and the path below
// it.
func member(object map[string]any, path string) (name, rest string, ok bool) {
	for candidate := range object {
		if below, is := option.Below(path, candidate); is && (!ok || len(candidate) > len(name)) {
			name, rest, ok = candidate, strings.TrimPrefix(below, "."), true
		}
	}
	return name, rest, ok
}
