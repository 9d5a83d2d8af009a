package plainyaml

import "strings"

// next goes to the next line that is neither empty nor a comment.
func (p *parser) next() {
	for p.rest != "" && !p.failed {
		var line string
		line, p.rest, _ = strings.Cut(p.rest, "\n")
		p.line = skipSpaces(line)
		p.indent = len(line) - len(p.line)
		if p.line == "" || p.line[0] == '#' {
			continue
		}
		if p.indent == 0 && (strings.HasPrefix(p.line, "---") || strings.HasPrefix(p.line, "...")) {
			p.fail() // a marker of a document
		}
		return
	}
	p.done = true
}

// skip goes on in the current line, behind n bytes and the spaces that follow.
func (p *parser) skip(n int) {
	after := skipSpaces(p.line[n:])
	p.indent += len(p.line) - len(after)
	p.line = after
}

// mapping reads a block mapping whose keys are in the column.
func (p *parser) mapping(column int) {
	first := p.open('{')
	for !p.done && p.indent == column {
		key := keyOf(p.line)
		if key == "" {
			p.fail()
			return
		}
		p.skip(len(key) + 1)
		p.member(key, func() { p.value(column) })
	}
	if p.failed || len(p.members) == first || !p.done && p.indent > column {
		p.fail()
		return
	}
	p.shut('}', first)
}

// value reads the value of a member whose key is in the column.
func (p *parser) value(column int) {
	if p.line != "" && p.line[0] != '#' {
		p.inline(column)
		return
	}
	p.next()
	switch {
	case !p.done && p.indent >= column && isItem(p.line): // it may be in the column of the key
		p.sequence(p.indent)
	case !p.done && p.indent > column:
		p.mapping(p.indent)
	default:
		p.json = append(p.json, "null"...)
	}
}

// sequence reads a block sequence whose dashes are in the column.
func (p *parser) sequence(column int) {
	first := p.open('[')
	for !p.done && p.indent == column && isItem(p.line) {
		p.skip(1)
		switch {
		case p.line == "" || p.line[0] == '#' || isItem(p.line):
			p.fail()
			return
		case keyOf(p.line) != "":
			p.mapping(p.indent)
		default:
			p.inline(column)
		}
		p.json = append(p.json, ',')
	}
	if !p.done && p.indent > column {
		p.fail()
		return
	}
	p.shut(']', first)
}

// inline reads a value that ends with the line, and goes to the next line. The next line must not be deeper
// than the column, because the value would continue there.
func (p *parser) inline(column int) {
	switch p.line[0] {
	case '"', '\'', '[', '{':
		p.flow()
		if after := skipSpaces(p.line); after != "" && (after[0] != '#' || len(after) == len(p.line)) {
			p.fail()
		}
	default:
		text, _, _ := strings.Cut(p.line, " #")
		text = strings.TrimRight(text, " ")
		if strings.HasSuffix(text, ":") || strings.Contains(text, ": ") {
			p.fail()
		}
		p.plain(text)
	}
	if p.next(); !p.done && p.indent > column {
		p.fail()
	}
}

// keyOf returns the plain key that a line begins with, or "".
func keyOf(line string) string {
	n := wordLength(line)
	if n == 0 || n > maxKey || n == len(line) || line[n] != ':' || n+1 < len(line) && line[n+1] != ' ' {
		return ""
	}
	if !isLetter(line[0]) || isReserved(line[:n]) {
		return ""
	}
	return line[:n]
}

func isItem(line string) bool { return line[0] == '-' && (len(line) == 1 || line[1] == ' ') }

// skipSpaces returns the text behind the spaces that it begins with.
func skipSpaces(s string) string {
	for s != "" && s[0] == ' ' {
		s = s[1:]
	}
	return s
}
