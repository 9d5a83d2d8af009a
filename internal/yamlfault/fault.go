package yamlfault

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podconfigd/podconfigd/internal/printable"
)

const (
	// MaxFaults is the maximum number of faults that are reported for a text.
	MaxFaults = 20
	// maxWorded is the maximum number of faults with a message. The reported ones are the
	// first of them by line.
	maxWorded = 200
	// MaxFaultLength is the maximum length of a fault's message in bytes.
	MaxFaultLength = 512
)

// Fault is a fault of a text, or a warning.
type Fault struct {
	// Line is the line in the file, or 0 if it is unknown.
	Line int
	// Field is the path of the field, such as spec.containers[0].image. It is empty if
	// the fault does not belong to one field.
	Field string
	// Message describes the fault in one line.
	Message string
}

// In returns the fault as one line of text with its position in the file. If file is
// empty, the text starts with the line.
func (f Fault) In(file string) string {
	message := f.Message
	if f.Field != "" {
		message = f.Field + ": " + message
	}
	switch {
	case f.Line == 0:
		return message
	case file == "":
		return fmt.Sprintf("line %d: %s", f.Line, message)
	}
	return fmt.Sprintf("%s:%d: %s", file, f.Line, message)
}

// Findings are faults of one text. A text of 1 MiB can have half a million. Only some
// of them get a message.
type Findings struct {
	faults []Fault
	more   int
}

// FindingsOf returns findings with these faults.
func FindingsOf(faults ...Fault) Findings { return Findings{faults: faults} }

// Faults returns the faults that have a message, in the order in which they were added.
func (f *Findings) Faults() []Fault { return f.faults }

// Add adds the fault that find returns. It does not call find if there are too many
// faults.
func (f *Findings) Add(find func() Fault) {
	if len(f.faults) >= maxWorded {
		f.more++
		return
	}
	f.faults = append(f.faults, find())
}

// AddAll adds the other Findings.
func (f *Findings) AddAll(other Findings) {
	for _, fault := range other.faults {
		f.Add(func() Fault { return fault })
	}
	f.more += other.more
}

// Bounded returns the first faults, in the order of their lines, and the number of
// further ones. Faults without a line come last.
func (f *Findings) Bounded() []Fault {
	faults := f.faults
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(uint(a.Line-1), uint(b.Line-1)), cmp.Compare(a.Field, b.Field))
	})
	faults = slices.Compact(faults)
	more := f.more
	if beyond := len(faults) - MaxFaults; beyond > 0 {
		faults, more = faults[:MaxFaults:MaxFaults], more+beyond
	}
	if more > 0 {
		faults = append(faults, Fault{Message: fmt.Sprintf("and %d more", more)})
	}
	for i := range faults {
		faults[i].Field, faults[i].Message = oneLine(faults[i].Field), oneLine(faults[i].Message)
	}
	return faults
}

// oneLine returns the text without control characters, truncated if it is too long.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, printable.Cut(s, MaxFaultLength))
}

var (
	yamlLine   = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?(.*)$`)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// notFinite finds a number that YAML has and JSON does not have.
var notFinite = regexp.MustCompile(`(?mi)(?:^|[:,\[\s-])\s*[-+]?\.(?:inf|nan)\s*(?:[#,\]}]|$)`)

// indentation is what can stand before the first key or value of a line.
var indentation = regexp.MustCompile(`^[ \t-]*`)

// otherVersion is in the error for a directive such as "%YAML 1.2".
const otherVersion = "incompatible YAML document"

// directive matches the beginning of the directive, not what a comment says about it.
var directive = regexp.MustCompile(`(?m)^(?:\x{FEFF})?%YAML`)

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
	if line == 0 || strings.Contains(message, otherVersion) { // the parser gives the line before that
		line = t.lineOf(message)
	}
	return Fault{Line: line, Message: "neither YAML nor JSON: " + t.explain(line, message)}
}

// explain returns a message of the parser. For a tab, a reserved character, or another version of YAML, it says what to do.
func (t *Text) explain(line int, message string) string {
	if strings.Contains(message, otherVersion) {
		return "expected YAML 1.1: remove the %YAML directive"
	}
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
	case strings.Contains(message, otherVersion):
		at = -1
		if found := directive.FindIndex(t.Data); found != nil {
			at = found[0]
		}
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

// flow matches a YAML text that begins with a flow collection, after comments and the start of the document.
var flow = regexp.MustCompile(`^(?:\x{FEFF})?(?:[ \t]*(?:---[ \t]*(?:#.*)?|[%#].*)?\r?\n)*(?:---[ \t]+)?[ \t]*(?:[&!]\S*\s+(?:#.*\n\s*)*)*[{\[]`)

// AfterFlow returns the line of what follows the first document, without a marker, if that is a flow collection, such as KYAML or
// a bracket too many; 0 if nothing follows. The parser of the kubelet never reads it.
func AfterFlow(data []byte) (line int) {
	if len(data) > MaxLength || utilyaml.IsJSONBuffer(data) || !flow.Match(data) {
		return 0
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if decoder.Decode(&document) != nil || len(document.Content) != 1 || document.Content[0].Style&yaml.FlowStyle == 0 {
		return 0
	}
	if err := decoder.Decode(new(yaml.Node)); err != nil && strings.Contains(err.Error(), "<document start>") {
		line, _ = parserError(err)
		line++ // the parser counts the lines before
	}
	return line
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
