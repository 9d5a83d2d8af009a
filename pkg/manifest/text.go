package manifest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxLocated is the size in bytes up to which faults are located and duplicate keys are
// looked for. The tree of nodes that this needs takes many times the size.
const maxLocated = 1 << 20

// maxLookUps is how many fields of one manifest are located: each costs a look at every
// key beside it and beside those above it.
const maxLookUps = 1000

// text is a manifest as it was written. It knows in which line a field is. That is asked
// of a manifest only if there is something to say of it: to parse it once more would
// cost every manifest.
type text struct {
	// file is the path, or empty where the manifest is from a URL.
	file string
	data []byte
	// prefix is the path of the pod in the text: empty, or that of an item in a list.
	prefix string
	nodes  *nodes
}

// nodes is the tree of a text, which its items share.
type nodes struct {
	parsed  bool
	root    *yaml.Node
	lookUps int
}

func newText(file string, data []byte) *text { return &text{file: file, data: data, nodes: &nodes{}} }

// item returns the text of an item of a list.
func (t *text) item(i int) *text {
	item := *t
	item.prefix = fmt.Sprintf("items[%d]", i)
	return &item
}

// tree returns the node of the first document, or nil.
func (t *text) tree() *yaml.Node {
	if t.nodes.parsed {
		return t.nodes.root
	}
	t.nodes.parsed = true
	if len(t.data) > maxLocated {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(t.data, &document); err == nil && len(document.Content) == 1 {
		t.nodes.root = document.Content[0]
	}
	return t.nodes.root
}

// locate returns the line of a field of the pod and its node. Where the field is missing, the line
// is that of the nearest field above that is there, and the node nil. The line is 0
// where it says nothing.
func (t *text) locate(path string) (line int, node *yaml.Node) {
	root := t.tree()
	if t.nodes.lookUps++; root == nil || t.nodes.lookUps > maxLookUps {
		return 0, nil
	}
	line, node = locate(root, join(t.prefix, path), root.Line)
	if t.file == "" && !bytes.ContainsRune(bytes.TrimSpace(t.data), '\n') {
		line = 0 // what a server sends in one line has no lines
	}
	return line, node
}

// at returns the fault of that field of the pod.
func (t *text) at(path, format string, args ...any) Fault {
	line, _ := t.locate(path)
	return Fault{Line: line, Field: path, Message: fmt.Sprintf(format, args...)}
}

// locate follows a path as package field and sigs.k8s.io/json write it:
// "metadata.labels[a.b/c]", "spec.containers[0].image".
func locate(n *yaml.Node, path string, line int) (int, *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path == "" {
		return line, n
	}
	switch n.Kind { //nolint:exhaustive // there is nothing below the others
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

// entry returns the entry of a mapping with which the path begins, and the rest of the
// path. Of several the last counts, and of nested ones the longest key.
func entry(n *yaml.Node, path string) (key, value *yaml.Node, rest string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := nameOfKey(n.Content[i])
		after, ok := cutKey(path, name)
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

// mergedBy returns the mappings that a merge key takes over.
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

// cutKey returns what comes after a key at the beginning of a path.
func cutKey(path, key string) (rest string, ok bool) {
	if strings.HasPrefix(path, "[") {
		if rest, ok = strings.CutPrefix(path[1:], key); ok && strings.HasPrefix(rest, "]") {
			return rest[1:], true
		}
	}
	rest, ok = strings.CutPrefix(path, key)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// duplicates returns a fault for each key that its mapping has already.
func (t *text) duplicates() (found findings) {
	root := t.tree()
	if root == nil {
		return found
	}
	var look func(n *yaml.Node, path string)
	look = func(n *yaml.Node, path string) {
		switch n.Kind { //nolint:exhaustive // scalars have none, and an alias is looked at where its anchor is
		case yaml.SequenceNode:
			for i, item := range n.Content {
				look(item, fmt.Sprintf("%s[%d]", path, i))
			}
		case yaml.MappingNode:
			lines := make(map[string]int, len(n.Content)/2)
			for i := 0; i+1 < len(n.Content); i += 2 {
				key := n.Content[i]
				name := nameOfKey(key)
				below := join(path, name)
				if first := lines[name]; first > 0 && key.Tag != "!!merge" {
					found.add(func() Fault {
						return Fault{key.Line, below, fmt.Sprintf("duplicate key, also in line %d; only the last value counts", first)}
					})
				}
				lines[name] = key.Line
				look(n.Content[i+1], below)
			}
		}
	}
	look(root, "")
	return found
}
