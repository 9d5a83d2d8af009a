package manifest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reason is the reason for refusing a manifest, in one word.
type Reason string

// The reasons for which a manifest is refused.
const (
	// ReasonEmpty: the manifest is empty.
	ReasonEmpty Reason = "Empty"
	// ReasonTooLarge: the manifest has MaxLength bytes or more, or too many values or
	// items.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonNotYAML: the manifest is neither YAML nor JSON.
	ReasonNotYAML Reason = "NotYAML"
	// ReasonNotAPod: the manifest is not a v1 Pod.
	ReasonNotAPod Reason = "NotAPod"
	// ReasonInvalid: the pod breaks a rule of the API.
	ReasonInvalid Reason = "Invalid"
	// ReasonForbidden: the pod uses something that a static pod can't.
	ReasonForbidden Reason = "Forbidden"
)

const (
	// maxFaults is the maximum number of faults that are reported for a manifest.
	maxFaults = 20
	// maxWorded is the maximum number of faults with a message. The reported ones are the
	// first of them by line.
	maxWorded = 200
	// maxFaultLength is the maximum length of a fault's message in bytes.
	maxFaultLength = 512
)

// Fault is a fault of a manifest, or a warning.
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

// findings are faults of one manifest. A pod of 1 MiB can have half a million. Only some
// of them get a message.
type findings struct {
	faults []Fault
	more   int
}

// add adds the fault that find returns. It does not call find if there are too many
// faults.
func (f *findings) add(find func() Fault) {
	if len(f.faults) >= maxWorded {
		f.more++
		return
	}
	f.faults = append(f.faults, find())
}

// addAll adds the other findings.
func (f *findings) addAll(other findings) {
	for _, fault := range other.faults {
		f.add(func() Fault { return fault })
	}
	f.more += other.more
}

// bounded returns the first faults, in the order of their lines, and the number of
// further ones. Faults without a line come last.
func (f *findings) bounded() []Fault {
	faults := f.faults
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(uint(a.Line-1), uint(b.Line-1)), cmp.Compare(a.Field, b.Field))
	})
	faults = slices.Compact(faults)
	more := f.more
	if beyond := len(faults) - maxFaults; beyond > 0 {
		faults, more = faults[:maxFaults:maxFaults], more+beyond
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
	if len(s) > maxFaultLength {
		end := maxFaultLength
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// Error is the error for a refused manifest.
type Error struct {
	Reason Reason
	// Faults are the faults, at least one, in the order of their lines.
	Faults []Fault
	// file is the name of the file without its directory; empty if the manifest is not
	// from a file.
	file string
}

// Error returns the faults of the manifest in one line.
func (e *Error) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.In(e.file)
	}
	return strings.Join(texts, "; ")
}

// refuse returns the error for a fault of the whole manifest.
func refuse(reason Reason, format string, args ...any) *Error {
	return newText("", nil).refuse(reason, Fault{Message: fmt.Sprintf(format, args...)})
}

// refuse returns the error for these faults.
func (t *text) refuse(reason Reason, faults ...Fault) *Error {
	return t.refuseAll(reason, findings{faults: faults})
}

func (t *text) refuseAll(reason Reason, found findings) *Error {
	e := &Error{Reason: reason, Faults: found.bounded()}
	if t.file != "" {
		e.file = filepath.Base(t.file)
	}
	return e
}
