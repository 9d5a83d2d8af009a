package logsink

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// oneLine returns a record as one printable line. A record has texts that others chose: paths of
// requests, names of files, errors. With a line break, they could forge a record of their own.
//
// Values of several lines are quoted. Everything else that is not printable is escaped as in JSON:
// in a record of JSON it can only be in a value, which stays the same.
func oneLine(record []byte) []byte {
	text, ended := strings.CutSuffix(string(record), "\n")
	if strings.Contains(text, "=<\n") {
		text = block.ReplaceAllStringFunc(text, quote)
	}
	text = printable.JSON(text, "")
	if ended {
		text += "\n"
	}
	return []byte(text)
}

// block matches a value of several lines as klog writes it: each line follows a tab.
var block = regexp.MustCompile(`=<\n(\t[^\n]*\n)+ >`)

func quote(block string) string {
	lines := strings.TrimSuffix(strings.TrimPrefix(block, "=<\n\t"), "\n >")
	return "=" + strconv.Quote(strings.ReplaceAll(lines, "\n\t", "\n"))
}
