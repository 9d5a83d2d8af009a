package plainyaml

import (
	"strings"
)

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

// flow reads a quoted scalar, a plain scalar of one word, or a flow collection, within the line.
func (p *parser) flow() {
	switch {
	case p.line == "" || p.failed:
		p.fail()
	case p.line[0] == '"' || p.line[0] == '\'':
		p.quoted()
	case p.line[0] == '[':
		p.collection('[', ']', func() {
			p.flow()
			p.json = append(p.json, ',')
		})
	case p.line[0] == '{':
		p.collection('{', '}', func() {
			key := keyOf(p.line)
			if key == "" {
				p.fail()
				return
			}
			p.skip(len(key) + 1)
			p.member(key, p.flow)
		})
	default:
		n := wordLength(p.line)
		p.plain(p.line[:n])
		p.line = p.line[n:]
	}
}

// quoted reads a quoted scalar without an escape.
func (p *parser) quoted() {
	quote := p.line[:1]
	text, after, closed := strings.Cut(p.line[1:], quote)
	if !closed || strings.HasPrefix(after, quote) || quote == `"` && strings.Contains(text, `\`) {
		p.fail()
		return
	}
	p.text(text)
	p.line = after
}

// collection reads a flow collection. read reads a member or an item.
func (p *parser) collection(begin, end byte, read func()) {
	first := p.open(begin)
	p.skip(1)
	for empty := true; !p.failed; empty = false {
		if p.line == "" {
			p.fail()
			return
		}
		if empty && p.line[0] == end {
			break
		}
		read()
		p.skip(0)
		if p.line != "" && p.line[0] == end {
			break
		}
		if !strings.HasPrefix(p.line, ", ") {
			p.fail()
			return
		}
		p.skip(1)
	}
	if !p.failed {
		p.line = p.line[1:]
		p.shut(end, first)
	}
}

// plain appends the value of a plain scalar. It fails for what could be a float, a timestamp or an integer that
// JSON writes otherwise, and for what may not be a plain scalar.
func (p *parser) plain(text string) {
	switch {
	case text == "":
		p.fail()
	case text == "true" || text == "false" || text == "null":
		p.json = append(p.json, text...)
	case isDigit(text[0]) || text[0] == '-':
		p.numeric(text)
	case !isReserved(text) && (isLetter(text[0]) || strings.IndexByte("/_$(", text[0]) >= 0):
		p.text(text)
	default:
		p.fail()
	}
}

// numeric appends the value of a plain scalar that begins as a number does.
func (p *parser) numeric(text string) {
	digits, dots, isText := 0, 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case isDigit(c):
			digits++
		case c == '.':
			dots++
		case strings.IndexByte("abcdefABCDEFxXoO_+-", c) < 0:
			isText = true // it is in no number
		}
	}
	switch {
	case text[0] == '-' && (len(text) == 1 || text[1] == ' ' || text[1] == '.'): // an item, or -.inf
		p.fail()
	case len(text) > 4 && text[4] == '-': // maybe a timestamp
		p.fail()
	case isText || dots > 1:
		p.text(text)
	case digits == len(text) && digits <= 18 && (text[0] != '0' || digits == 1):
		p.json = append(p.json, text...)
	default:
		p.fail()
	}
}

// isReserved reports whether a plain scalar is a boolean or null in YAML 1.1.
func isReserved(text string) bool {
	if len(text) > len("false") {
		return false
	}
	switch strings.ToLower(text) {
	case "y", "yes", "n", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}

// wordLength returns the length of the word that a text begins with. Keys, and plain scalars of flow collections,
// are words.
func wordLength(text string) int {
	n := 0
	for n < len(text) && (isLetter(text[n]) || isDigit(text[n]) || strings.IndexByte("_./-", text[n]) >= 0) {
		n++
	}
	return n
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
