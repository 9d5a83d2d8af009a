package manifests

import (
	"bytes"
	"strings"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

const (
	// linesAround is the number of lines that are kept before and after a fault, and maxLine the
	// length of a line in bytes. So a fault keeps 1.4 KiB.
	linesAround = 3
	maxLine     = 200
)

// around returns the lines around the first fault whose line is known, or nil.
func around(data []byte, faults []manifest.Fault) *v1alpha1.ManifestFault {
	for _, f := range faults {
		if f.Line > 0 {
			return linesOf(data, f.Line)
		}
	}
	return nil
}

func linesOf(data []byte, line int) *v1alpha1.ManifestFault {
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
