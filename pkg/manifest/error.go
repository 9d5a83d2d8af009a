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

// Reason says in one word why a manifest was refused.
type Reason string

// The reasons for which a manifest is refused.
const (
	// ReasonEmpty: there is nothing in it.
	ReasonEmpty Reason = "Empty"
	// ReasonTooLarge: it has MaxLength bytes or more, or too many values or items.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonNotYAML: it can't be read as YAML or JSON.
	ReasonNotYAML Reason = "NotYAML"
	// ReasonNotAPod: it is an object, but not a v1 Pod.
	ReasonNotAPod Reason = "NotAPod"
	// ReasonInvalid: the pod breaks a rule of the API.
	ReasonInvalid Reason = "Invalid"
	// ReasonForbidden: the pod uses what a static pod may not.
	ReasonForbidden Reason = "Forbidden"
)

const (
	// maxFaults is how many faults of one manifest are reported one by one.
	maxFaults = 20
	// maxWorded is how many are put into words, so that the first of them by line can be
	// found.
	maxWorded = 200
	// maxFaultLength is how long a fault's message may be, in bytes.
	maxFaultLength = 512
)

// Fault is one thing that is wrong with a manifest, or noteworthy.
type Fault struct {
	// Line is the line in the file, or 0 where it is not known.
	Line int
	// Field is the path of the field, such as spec.containers[0].image. It is empty
	// where the fault is not that of one field.
	Field string
	// Message says what is wrong, in one line.
	Message string
}

// In returns the fault as one line of text that says where in the file it is. Without
// the file's name it begins with the line.
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

// findings are faults of one manifest. A pod of 1 MiB can have half a million, of which
// only so many are put into words.
type findings struct {
	faults []Fault
	more   int
}

// add adds what the function returns. It is not called where there are too many.
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

// bounded returns the faults in the order of their lines, those without one last: the
// first ones, and how many more there are.
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

// oneLine returns the text without control characters, cut off where it is too long.
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

// Error is the refusal of one manifest.
type Error struct {
	Reason Reason
	// Faults are what is wrong, at least one thing, in the order of the lines.
	Faults []Fault
	// file is the name of the file without its directory, where it is a file.
	file string
}

// Error returns what is wrong with the manifest, in one line.
func (e *Error) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.In(e.file)
	}
	return strings.Join(texts, "; ")
}

// refuse returns the refusal for one fault that is that of the whole manifest.
func refuse(reason Reason, format string, args ...any) *Error {
	return newText("", nil).refuse(reason, Fault{Message: fmt.Sprintf(format, args...)})
}

// refuse returns the refusal for these faults.
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
