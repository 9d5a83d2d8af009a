package logsink

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/podconfigd/podconfigd/internal/printable"
)

// oneLine returns a record as one printable line. A record has text that others chose, such as paths of requests, names of
// files and errors. A line break in it could forge another record.
//
// oneLine quotes values of several lines, and escapes everything else that is not printable as JSON does. In a JSON record,
// only values can have such characters, so the record stays equal.
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

// block matches a value of several lines as klog writes it: each line begins with a tab.
var block = regexp.MustCompile(`=<\n(\t[^\n]*\n)+ >`)

func quote(block string) string {
	lines := strings.TrimSuffix(strings.TrimPrefix(block, "=<\n\t"), "\n >")
	return "=" + strconv.Quote(strings.ReplaceAll(lines, "\n\t", "\n"))
}
