// Package plainyaml converts plain YAML to JSON, fast:
//
//	json, ok := plainyaml.ToJSON(data)
//	if !ok {
//		json, err = yaml.YAMLToJSONStrict(data)
//	}
//
// Plain YAML is what nearly all manifests are written in: block mappings and sequences, flow collections
// within a line, and scalars of one line, in printable ASCII. All else is left to the YAML library: ToJSON
// guesses nothing.
//
// If ToJSON converts a text, the result has the bytes that sigs.k8s.io/yaml.YAMLToJSONStrict returns:
// members are sorted, and `<`, `>` and `&` are escaped. A fuzz target compares the two.
package plainyaml

import (
	"bytes"
	"slices"
	"strings"
)

// maxDepth is the maximum depth of collections.
const maxDepth = 64

// maxKey is the maximum length of a key in bytes. YAML's own limit is 1,024.
const maxKey = 512

// ToJSON converts plain YAML to JSON. It returns false for all other texts, including texts that are not YAML.
func ToJSON(data []byte) (json []byte, ok bool) {
	for _, c := range data {
		if (c < ' ' || c > '~') && c != '\n' {
			return nil, false
		}
	}
	p := parser{rest: string(bytes.TrimPrefix(data, []byte("---\n"))), json: make([]byte, 0, len(data)+len(data)/8)}
	p.next()
	p.mapping(0)
	if p.failed || !p.done {
		return nil, false
	}
	return p.json, true
}

// parser reads lines, and appends the JSON of what it has read. Once it has failed, its result is not used.
type parser struct {
	// line is the current line without its indentation, from the place that was reached. indent is
	// the column of this place. rest follows the line.
	line, rest   string
	indent       int
	done, failed bool // there is no line

	json []byte
	// members are the members of the open mappings.
	members []member
	sorted  []byte
	depth   int
}

// member is a member of a mapping. Its JSON, with a comma at the end, is json[from:to].
type member struct {
	key      string
	from, to int
}

// fail leaves the text to another parser.
func (p *parser) fail() { p.failed, p.done = true, true }

// open begins a collection. It returns the index of its first member.
func (p *parser) open(bracket byte) (first int) {
	if p.depth++; p.depth > maxDepth {
		p.fail()
	}
	p.json = append(p.json, bracket)
	return len(p.members)
}

// shut ends a collection. Each of its members and items has a comma at the end.
func (p *parser) shut(bracket byte, first int) {
	p.depth--
	p.sortMembers(first)
	if last := len(p.json) - 1; p.json[last] == ',' {
		p.json[last] = bracket
		return
	}
	p.json = append(p.json, bracket)
}

// member appends a member of a mapping.
func (p *parser) member(key string, readValue func()) {
	from := len(p.json)
	p.text(key)
	p.json = append(p.json, ':')
	readValue()
	p.json = append(p.json, ',')
	p.members = append(p.members, member{key, from, len(p.json)})
}

// sortMembers sorts the members of a collection, and forgets them. A sequence has none.
func (p *parser) sortMembers(first int) {
	members := p.members[first:]
	p.members = p.members[:first]
	inOrder := true
	for i := 1; i < len(members); i++ {
		inOrder = inOrder && members[i-1].key < members[i].key
	}
	if inOrder {
		return
	}
	begin, end := members[0].from, members[len(members)-1].to
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	p.sorted = p.sorted[:0]
	for i, m := range members {
		if i > 0 && members[i-1].key == m.key {
			p.fail() // a duplicate
		}
		p.sorted = append(p.sorted, p.json[m.from:m.to]...)
	}
	copy(p.json[begin:end], p.sorted)
}

// text appends a string as encoding/json encodes it.
func (p *parser) text(s string) {
	p.json = append(p.json, '"')
	start := 0
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			p.json = append(append(p.json, s[start:i]...), '\\', c)
			start = i + 1
		case '<', '>', '&':
			const hex = "0123456789abcdef"
			p.json = append(append(p.json, s[start:i]...), '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			start = i + 1
		}
	}
	p.json = append(append(p.json, s[start:]...), '"')
}
