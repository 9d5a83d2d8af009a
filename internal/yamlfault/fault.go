package yamlfault

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

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
