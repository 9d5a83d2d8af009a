package yamlfault

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

var (
	yamlLine   = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?(.*)$`)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// notFinite finds a number that YAML has and JSON does not have.
var notFinite = regexp.MustCompile(`(?mi)(?:^|[:,\[\s-])\s*[-+]?\.(?:inf|nan)\s*(?:[#,\]}]|$)`)

// indentation is what can stand before the first key or value of a line.
var indentation = regexp.MustCompile(`^[ \t-]*`)

// reserved finds a character that no text without quotes begins with.
var reserved = regexp.MustCompile("(?:^|[:,[{-])[ \\t]*([@`%])")

// NotYAML returns the fault for the error of the parser.
func (t *Text) NotYAML(err error) Fault {
	if number, ok := strings.CutPrefix(err.Error(), "json: unsupported value: "); ok {
		fault := Fault{Message: "expected a finite number, got " + number}
		if at := notFinite.FindIndex(t.Data); at != nil {
			fault.Line = 1 + bytes.Count(t.Data[:at[1]-1], []byte("\n"))
		}
		return fault
	}
	line, message := parserError(err)
	if line == 0 {
		line = t.lineOf(message)
	}
	return Fault{Line: line, Message: "neither YAML nor JSON: " + t.explain(line, message)}
}

// explain returns a message of the parser. For a tab or a reserved character, it says what to do.
func (t *Text) explain(line int, message string) string {
	if line == 0 || !strings.Contains(message, "cannot start any token") && !strings.Contains(message, "tab character") {
		return message
	}
	lines := bytes.SplitN(t.Data, []byte("\n"), line+1)
	text := lines[min(line, len(lines))-1]
	if bytes.ContainsRune(indentation.Find(text), '\t') {
		return "a tab indents the line: use spaces"
	}
	if found := reserved.FindSubmatch(text); found != nil {
		return "a text can't begin with " + string(found[1]) + ": put it in quotes"
	}
	return message
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
func (t *Text) lineOf(message string) int {
	var at int
	anchor := yamlAnchor.FindStringSubmatch(message)
	switch {
	case anchor != nil:
		at = bytes.Index(t.Data, []byte("*"+anchor[1]))
	case strings.Contains(message, "control characters"):
		at = bytes.IndexFunc(t.Data, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) })
	case strings.Contains(message, "UTF-8"):
		at = bytes.IndexFunc(t.Data, func(r rune) bool { return r == utf8.RuneError })
	case bytes.HasPrefix(t.Data, []byte("\ufeff")):
		return 0
	default:
		// For an error in the first line, the parser returns no line. So the text is
		// moved to the second line.
		_, err := utilyaml.ToJSON(append([]byte("#\n"), t.Data...))
		if err == nil {
			return 0
		}
		line, _ := parserError(err)
		return max(line-1, 0)
	}
	if at < 0 {
		return 0
	}
	return 1 + bytes.Count(t.Data[:at], []byte("\n"))
}

// LaterDocuments counts the non-empty YAML documents after the first, and returns the
// first line of the first of them.
func LaterDocuments(data []byte) (first, n int) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	documents, content, number, start := 0, false, 0, 0
	for line := range bytes.Lines(data) {
		number++
		if rest, ok := cutMarker(line, "---"); ok {
			content, line, start = false, rest, number
		} else if _, ok := cutMarker(line, "..."); ok {
			content, line, start = false, nil, 0
		}
		line = bytes.TrimSpace(line)
		if content || len(line) == 0 || line[0] == '#' || line[0] == '%' { // a directive is not content
			continue
		}
		content = true
		if documents++; documents == 2 {
			first = cmp.Or(start, number)
		}
	}
	return first, max(documents-1, 0)
}

// cutMarker reports whether the line starts with the marker of the start or end of a YAML
// document, and returns the rest of the line.
func cutMarker(line []byte, marker string) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte(marker))
	if !ok || (len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n")) {
		return nil, false
	}
	return rest, true
}
