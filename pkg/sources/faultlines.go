package sources

import (
	"bytes"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

const (
	// linesAround is the number of lines that are kept before and after a fault, and maxLine the
	// length of a line in bytes. So a fault keeps 1.4 KiB.
	linesAround = 3
	maxLine     = 200
)

// FaultLines returns the lines of a manifest around a line, or nil if it does not have that line.
func FaultLines(data []byte, line int) *v1alpha1.ManifestFault {
	if line <= 0 {
		return nil
	}
	found := &v1alpha1.ManifestFault{Line: line, FirstLine: max(1, line-linesAround)}
	number := 0
	for text := range bytes.Lines(data) {
		if number++; number > line+linesAround {
			break
		}
		if number < found.FirstLine {
			continue
		}
		text = bytes.TrimRight(text, "\r\n")
		end := ""
		if len(text) > maxLine {
			text, end = text[:maxLine], "…"
		}
		found.Lines = append(found.Lines, strings.ToValidUTF8(string(text), "\uFFFD")+end) // a copy: data can be large
	}
	if number < line {
		return nil
	}
	return found
}
