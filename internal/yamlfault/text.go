// Package yamlfault finds faults in YAML and JSON, and their lines.
//
//	text := yamlfault.New("pod.yaml", data)
//	fault := text.At("spec.containers[0].image", "Required value")
//	fmt.Println(fault.In("pod.yaml")) // pod.yaml:7: spec.containers[0].image: Required value
package yamlfault

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podconfigd/podconfigd/internal/option"
)

// MaxLength is the maximum size in bytes of a text whose faults get lines and whose
// duplicate keys are found. The tree of nodes takes many times this size.
const MaxLength = 1 << 20

// maxLookUps is the maximum number of fields of one text that get a line. Each lookup
// visits every key beside the field and beside its parents.
const maxLookUps = 1000

// Text is a text in YAML or JSON. It returns the line of a field. It parses the text for this
// only when the first line is needed, because parsing every text again would be expensive.
type Text struct {
	// File is the path, or empty if the text is from a URL.
	File string
	Data []byte
	// Prefix is the path of the object in the text: empty, or the path of an item of a list.
	Prefix string
	nodes  *nodes
}

// nodes is the tree of a text. All items of the text share it.
type nodes struct {
	parsed  bool
	root    *yaml.Node
	lookUps int
}

// New returns the text.
func New(file string, data []byte) *Text { return &Text{File: file, Data: data, nodes: &nodes{}} }

// Item returns the text of an item of a list.
func (t *Text) Item(i int) *Text {
	item := *t
	item.Prefix = fmt.Sprintf("items[%d]", i)
	return &item
}

// tree returns the node of the first document, or nil.
func (t *Text) tree() *yaml.Node {
	if t.nodes.parsed {
		return t.nodes.root
	}
	t.nodes.parsed = true
	if len(t.Data) > MaxLength {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(t.Data, &document); err == nil && len(document.Content) == 1 {
		t.nodes.root = document.Content[0]
	}
	return t.nodes.root
}

// Locate returns the line and the node of a field of the object. If the field is missing, it
// returns the line of the closest existing parent and a nil node. The line is 0 if it has
// no meaning.
func (t *Text) Locate(path string) (line int, node *yaml.Node) {
	root := t.tree()
	if t.nodes.lookUps++; root == nil || t.nodes.lookUps > maxLookUps {
		return 0, nil
	}
	line, node = locate(root, join(t.Prefix, path), root.Line)
	if t.File == "" && !bytes.ContainsRune(bytes.TrimSpace(t.Data), '\n') {
		line = 0 // the text has only one line, from a server
	}
	return line, node
}

// At returns the fault of a field of the object.
func (t *Text) At(path, format string, args ...any) Fault {
	line, _ := t.Locate(path)
	return Fault{Line: line, Field: path, Message: fmt.Sprintf(format, args...)}
}

// locate follows a path in the notation of package field and sigs.k8s.io/json:
// "metadata.labels[a.b/c]", "spec.containers[0].image".
func locate(n *yaml.Node, path string, line int) (int, *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path == "" {
		return line, n
	}
	switch n.Kind { //nolint:exhaustive // the others have nothing below them
	case yaml.SequenceNode:
		index, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(n.Content) {
			return locate(n.Content[i], rest, n.Content[i].Line)
		}
	case yaml.MappingNode:
		if key, value, rest := entry(n, strings.TrimPrefix(path, ".")); key != nil {
			return locate(value, rest, key.Line)
		}
	}
	return line, nil
}

// entry returns the entry of a mapping for the first element of the path, and the rest of
// the path. If several match, the last counts, and the longest key.
func entry(n *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := nameOfKey(n.Content[i])
		after, ok := option.Below(path, name)
		if ok && (key == nil || len(name) >= len(nameOfKey(key))) {
			key, value, rest = n.Content[i], n.Content[i+1], after
		}
	}
	if key != nil {
		return key, value, rest
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		for _, merged := range mergedBy(n.Content[i+1]) {
			if key, value, rest = entry(merged, path); key != nil {
				return key, value, rest
			}
		}
	}
	return nil, nil, ""
}

// nameOfKey returns the name of a key, which may be an alias.
func nameOfKey(key *yaml.Node) string {
	if key.Kind == yaml.AliasNode {
		return key.Alias.Value
	}
	return key.Value
}

// mergedBy returns the mappings that a merge key includes.
func mergedBy(n *yaml.Node) []*yaml.Node {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var mappings []*yaml.Node
	for _, node := range nodes {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		if node.Kind == yaml.MappingNode {
			mappings = append(mappings, node)
		}
	}
	return mappings
}

// DuplicateLine returns the line of the second key with the name at the top level; 0 for none.
func (t *Text) DuplicateLine(name string) int {
	root := t.tree()
	if root == nil || root.Kind != yaml.MappingNode {
		return 0
	}
	first := true
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch key := root.Content[i]; {
		case nameOfKey(key) != name:
		case first:
			first = false
		default:
			return key.Line
		}
	}
	return 0
}

// Duplicates returns a fault for each duplicate key of a mapping. The note is added to each
// message.
func (t *Text) Duplicates(note string) (found Findings) {
	t.each(func(n *yaml.Node, path string) {
		if n.Kind != yaml.MappingNode {
			return
		}
		lines := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			name := nameOfKey(key)
			if first := lines[name]; first > 0 && key.Tag != "!!merge" {
				found.Add(func() Fault {
					return Fault{key.Line, join(path, name), fmt.Sprintf("duplicate key, also in line %d%s", first, note)}
				})
			}
			lines[name] = key.Line
		}
	})
	return found
}

// each visits all nodes but keys, with their paths. An alias is visited at its anchor.
func (t *Text) each(visit func(n *yaml.Node, path string)) {
	var look func(n *yaml.Node, path string)
	look = func(n *yaml.Node, path string) {
		visit(n, path)
		switch n.Kind { //nolint:exhaustive // the others have nothing below them
		case yaml.SequenceNode:
			for i, item := range n.Content {
				look(item, fmt.Sprintf("%s[%d]", path, i))
			}
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				look(n.Content[i+1], join(path, nameOfKey(n.Content[i])))
			}
		}
	}
	if root := t.tree(); root != nil {
		look(root, "")
	}
}
