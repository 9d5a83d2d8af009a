package plainyaml

import "strings"

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
