package manifest

import (
	"bytes"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// toJSON converts the manifest to JSON, as the kubelet does, and returns its duplicate
// keys.
//
// The strict conversion gives the same JSON as the kubelet's or fails. So it is tried
// first. It costs a lookup for each key, and a second conversion would cost as much as
// the first. Its error has a text for each duplicate, so it is not used for a large
// manifest.
func (t *text) toJSON() (data []byte, duplicates findings, err error) {
	isJSON := utilyaml.IsJSONBuffer(t.data) // the decoder finds its duplicates
	large := len(t.data) > maxLocated
	if !isJSON && !large {
		if data, err = yaml.YAMLToJSONStrict(t.data); err == nil {
			return data, findings{}, nil
		}
	}
	data, err = utilyaml.ToJSON(t.data)
	switch {
	case err != nil:
		return nil, findings{}, t.notYAML(err)
	case isJSON || large:
		return data, findings{}, nil
	}
	return data, t.duplicates(), nil
}

// maxFieldName is more than the length of any field name in a pod.
const maxFieldName = 64

var (
	yamlLine   = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?(.*)$`)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// notYAML returns the fault for the parser's error.
func (t *text) notYAML(err error) *Error {
	line, message := parserError(err)
	if line == 0 {
		line = t.lineOf(message)
	}
	return t.refuse(ReasonNotYAML, Fault{Line: line, Message: "neither YAML nor JSON: " + message})
}

func parserError(err error) (line int, message string) {
	parts := yamlLine.FindStringSubmatch(oneLine(err.Error()))
	if parts == nil {
		return 0, err.Error()
	}
	line, _ = strconv.Atoi(parts[1]) // 0 if there is none
	return line, parts[2]
}

// lineOf finds the line of an error that has none.
func (t *text) lineOf(message string) int {
	var at int
	anchor := yamlAnchor.FindStringSubmatch(message)
	switch {
	case anchor != nil:
		at = bytes.Index(t.data, []byte("*"+anchor[1]))
	case strings.Contains(message, "control characters"):
		at = bytes.IndexFunc(t.data, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) })
	case strings.Contains(message, "UTF-8"):
		at = bytes.IndexFunc(t.data, func(r rune) bool { return r == utf8.RuneError })
	case bytes.HasPrefix(t.data, []byte("\ufeff")):
		return 0
	default:
		// For an error in the first line, the parser returns no line. So the manifest is
		// moved to the second line.
		_, err := utilyaml.ToJSON(append([]byte("#\n"), t.data...))
		if err == nil {
			return 0
		}
		line, _ := parserError(err)
		return max(line-1, 0)
	}
	if at < 0 {
		return 0
	}
	return 1 + bytes.Count(t.data[:at], []byte("\n"))
}

// strictFaults returns the faults for the errors of the strict decoder: unknown fields
// and, in JSON, duplicate fields.
func (t *text) strictFaults(errs []error) (found findings) {
	for _, err := range errs {
		located, ok := err.(interface{ FieldPath() string })
		if !ok {
			found.add(func() Fault { return Fault{Message: err.Error()} })
			continue
		}
		path := located.FieldPath()
		message := "duplicate key"
		if strings.HasPrefix(err.Error(), "unknown field") {
			message = "unknown field, ignored"
			if known := nearest(path); known != "" {
				message += "; did you mean " + known + "?"
			}
		}
		found.add(func() Fault { return t.at(path, "%s", message) })
	}
	return found
}

// nearest returns the known field that is most similar to the last field of the path, at
// the same place; empty if none is similar.
func nearest(path string) string {
	typ, name := podType, path
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
		if len(name) > maxFieldName {
			return ""
		}
		best, least := "", 1+len(name)/4
		for _, candidate := range slices.Sorted(maps.Keys(known)) {
			if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d <= least && (best == "" || d < least) {
				best, least = candidate, d
			}
		}
		return best
	}
}

// distance returns the number of characters to insert, delete, replace or swap with the
// next one, to turn a into b (optimal string alignment).
func distance(a, b string) int {
	before, above := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
