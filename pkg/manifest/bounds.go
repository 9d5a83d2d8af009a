package manifest

import (
	"bytes"
	"regexp"
	"sync"

	"go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// errAliasesTooLarge is the error for a manifest that is too large with its aliases expanded. An alias takes
// two bytes, and what it stands for can have megabytes.
var errAliasesTooLarge = refuse(ReasonTooLarge,
	"10 MiB or more with its aliases expanded: a manifest must be smaller, so write an anchor's text in fewer places")

// anchorToken and aliasToken match an anchor and an alias, and rarely something else.
var (
	anchorToken = regexp.MustCompile(`(?m)(?:^|[\s\[{,:])&[0-9A-Za-z_-]`)
	aliasToken  = regexp.MustCompile(`(?m)(?:^|[\s\[{,:])\*[0-9A-Za-z_-]`)
)

// checkAliases returns an error if a YAML text has MaxLength bytes or more with all aliases expanded.
func (t *text) checkAliases() error {
	if !mayExpand(t.Data) || utilyaml.IsJSONBuffer(t.Data) {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(t.Data, &document); err != nil {
		// The kubelet's parser is another version. It may read what this one does not.
		if anchorToken.Match(t.Data) && aliasToken.Match(t.Data) {
			return t.refuse(ReasonNotYAML, t.NotYAML(err))
		}
		return nil
	}
	if (&expansion{of: make(map[*yaml.Node]int)}).addNode(&document) >= MaxLength {
		return errAliasesTooLarge
	}
	return nil
}

// mayExpand reports whether aliases could make the text too large. Each one at most doubles it.
func mayExpand(data []byte) bool {
	length := len(data)
	if bytes.IndexByte(data, '&') < 0 {
		return false
	}
	for rest := data; length < MaxLength; length *= 2 {
		at := bytes.IndexByte(rest, '*')
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// expansion counts the bytes of nodes with aliases expanded, up to MaxLength.
type expansion struct {
	of map[*yaml.Node]int // with an anchor; 0 while one is counted
}

func (e *expansion) addNode(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		// It stands before its anchor has ended only if the anchor contains it, which is refused later.
		return e.of[n.Alias]
	}
	length := len(n.Value) + 1
	for _, below := range n.Content {
		length = min(length+e.addNode(below), MaxLength)
	}
	if n.Anchor != "" {
		e.of[n] = length
	}
	return length
}

// maxValues is the maximum number of objects, lists and members of a pod. 10 MiB have
// room for five million, which take gigabytes to decode.
const maxValues = 100_000

var errTooManyValues = refuse(ReasonTooLarge, "more than %d values: a manifest must have fewer", maxValues)

// maxPod is the maximum size of a pod as JSON. The apiserver can't store a larger one, because etcd takes requests of at most
// 1.5 MiB. The journal and the streams hold a pod several times.
const maxPod = 3 << 19

var errPodTooLarge = refuse(ReasonTooLarge, "the pod has more than 1.5 MiB as JSON: it must be smaller")

// maxYAML is the maximum size of YAML without lines that are comments, and without the spaces that begin lines. The tree of a
// YAML text of 10 MiB can take 500 MiB.
const maxYAML = 2 * maxPod

var errYAMLTooLarge = refuse(ReasonTooLarge, "more than 3 MiB of YAML without comments: a pod has at most 1.5 MiB as JSON, and a longer list must be JSON")

// checkYAML returns an error if the text has too much YAML.
func checkYAML(data []byte) error {
	if len(data) <= maxYAML {
		return nil
	}
	length := 0
	for line := range bytes.Lines(data) {
		if line = bytes.TrimLeft(line, " \t"); len(line) > 0 && line[0] != '#' {
			length += len(line)
		}
	}
	if length > maxYAML {
		return errYAMLTooLarge
	}
	return nil
}

// parsing is held while a text of more than yamlfault.MaxLength is parsed. Its tree can take 150 MiB.
var parsing sync.Mutex

// alone makes the caller the only one that parses a large text until it calls done.
func alone(data []byte) (done func()) {
	if len(data) <= yamlfault.MaxLength {
		return func() {}
	}
	parsing.Lock()
	return parsing.Unlock
}

// tooMany reports whether the JSON has more than maxValues values. It counts the starts
// of objects and lists, and the separators of their members.
func tooMany(json []byte) bool {
	if len(json) <= maxValues {
		return false
	}
	values, quoted := 0, false
	for i := 0; i < len(json) && values <= maxValues; i++ {
		switch c := json[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			values++
		}
	}
	return values > maxValues
}
