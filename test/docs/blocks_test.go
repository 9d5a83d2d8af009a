package docs

import (
	"regexp"
	"strings"
)

// block is a fenced block of a page.
type block struct {
	line     int      // of the fence
	language string   // after the fence
	marks    []string // the comments in the lines before the fence
	lines    []string
}

// comment is an HTML comment in a line of its own.
var comment = regexp.MustCompile(`^<!-- (.*) -->$`)

// blocks returns the fenced blocks of a page, and the lines at which indented ones begin.
func blocks(markdown string) (fenced []block, indented []int) {
	var current *block
	before := ""
	var marks []string
	for i, line := range strings.Split(markdown, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && current == nil:
			current = &block{line: i + 1, language: strings.TrimSpace(fence), marks: marks}
		case isFence:
			fenced = append(fenced, *current)
			current = nil
		case current != nil:
			current.lines = append(current.lines, line)
		case strings.HasPrefix(line, "    ") && before == "":
			indented = append(indented, i+1)
		}
		if m := comment.FindStringSubmatch(line); m != nil && current == nil {
			marks = append(marks, m[1])
		} else {
			marks = nil
		}
		before = line
	}
	return fenced, indented
}

func (b *block) text() string { return strings.Join(b.lines, "\n") + "\n" }

// step is a command and its documented output.
type step struct {
	line    int
	command string
	output  []string
}

// steps returns the commands of a console block.
func (b *block) steps() (all []step) {
	for i, line := range b.lines {
		command, isCommand := strings.CutPrefix(line, "$ ")
		more, isMore := strings.CutPrefix(line, "> ")
		switch last := len(all) - 1; {
		case isCommand:
			all = append(all, step{line: b.line + 1 + i, command: command})
		case last < 0:
		case isMore && len(all[last].output) == 0:
			all[last].command += "\n" + more
		default:
			all[last].output = append(all[last].output, line)
		}
	}
	return all
}

// pattern matches the start of the output. "…" matches anything in a line, and alone in a line
// any number of lines.
func (s *step) pattern() *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.Join(s.output, "\n"))
	quoted = strings.TrimSuffix(quoted, "\n…")
	quoted = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(quoted, `(?:.*\n)*?`)
	return regexp.MustCompile(`^` + strings.ReplaceAll(quoted, "…", `.*`) + `(\n|$)`)
}

// file is the path to which a block is written, or empty.
func (b *block) file() string {
	for _, mark := range b.marks {
		if path, ok := strings.CutPrefix(mark, "file "); ok {
			return path
		}
	}
	return ""
}

// runs says whether the block is run here.
func (b *block) runs() bool { return b.language == "console" && len(b.marks) == 0 }
