package configfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podconfigd/podconfigd/api/config/v1alpha1"
)

// Print writes the configuration as YAML, with a comment on where each value comes from. It
// does not write values that may be secrets.
func (c *Configuration) Print(w io.Writer) error {
	object := c.DeepCopy()
	object.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.Kind))
	hideSecrets(object)
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var document yaml.Node // JSON is YAML; unlike a map, it keeps the order of the fields
	if err := yaml.Unmarshal(data, &document); err != nil {
		return err
	}
	fields := document.Content[0].Content // TypeMeta has the kind first
	fields[0], fields[1], fields[2], fields[3] = fields[2], fields[3], fields[0], fields[1]
	c.comment(&document, "")
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return err
	}
	_, err = w.Write(text.Bytes())
	return err
}

// hidden replaces a value that may be a secret.
const hidden = "REDACTED"

func hideSecrets(object *v1alpha1.PodConfigdConfiguration) {
	object.StaticPodURL, object.StaticPodURLHeader = hideInURL(object.StaticPodURL), hideValues(object.StaticPodURLHeader)
	for i := range object.HTTPSources {
		source := &object.HTTPSources[i]
		source.URL, source.Header = hideInURL(source.URL), hideValues(source.Header)
	}
}

func hideValues(header map[string][]string) map[string][]string {
	shown := make(map[string][]string, len(header))
	for name := range header {
		shown[name] = []string{hidden}
	}
	return shown
}

// hideInURL replaces the user and the query of a URL.
func hideInURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return ""
	case err != nil:
		return hidden
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	if u.RawQuery != "" {
		u.RawQuery = hidden
	}
	return u.String()
}

// plain are the strings that need no quotes in YAML.
var plain = regexp.MustCompile(`^([A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*|[0-9]+[a-z][0-9a-z.]*)$`)

// comment puts the node into the usual form of YAML, and adds the origin of each value.
func (c *Configuration) comment(n *yaml.Node, path string) {
	n.Style &^= yaml.FlowStyle
	switch n.Kind { //nolint:exhaustive // there are no aliases
	case yaml.ScalarNode:
		var other any
		if n.Tag == "!!str" && plain.MatchString(n.Value) && yaml.Unmarshal([]byte(n.Value), &other) == nil && other == n.Value && !isOldBool(n.Value) {
			n.Style = 0
		}
	case yaml.MappingNode:
		if path == "logging" { // its options need a feature gate, which is off
			n.Content = n.Content[:len(n.Content)-2]
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			below := key.Value
			if path != "" {
				below = path + "." + below
			}
			c.comment(key, below)
			c.comment(value, below)
			switch {
			case value.Kind == yaml.MappingNode && len(value.Content) > 0, below == "apiVersion", below == "kind", isInList(path):
			case value.Kind == yaml.ScalarNode || len(value.Content) == 0:
				value.LineComment = c.originText(below)
			default:
				key.LineComment = c.originText(below)
			}
		}
	default:
		if n.Kind == yaml.SequenceNode {
			path += "[]"
		}
		for _, below := range n.Content {
			c.comment(below, path)
		}
	}
}

// isOldBool reports whether YAML 1.1 takes the string for a boolean.
func isOldBool(s string) bool {
	return slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(s))
}

// isInList reports whether the path is that of an item of a list. Its origin is that of the
// list.
func isInList(path string) bool { return strings.Contains(path, "[]") }

// originText says where the value of a field comes from.
func (c *Configuration) originText(path string) string {
	if flag := v1alpha1.Options.Flag(path); c.changed(flag) {
		return "flag --" + flag
	}
	from, line := c.origin(path)
	if from != nil {
		return fmt.Sprintf("%s %s:%d", from.flag, from.path, line)
	}
	return "default"
}
