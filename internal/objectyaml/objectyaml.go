// Package objectyaml prints objects as YAML.
package objectyaml

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Marshal returns the YAML of an object. Unlike yaml.Marshal, it accepts text with the control
// characters that JSON allows and YAML does not, as in a name of a file. It escapes them.
func Marshal(object any) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(escape(data))
}

// escape escapes, in JSON, what YAML does not accept. Such characters are only in strings.
func escape(data []byte) []byte {
	if !bytes.ContainsFunc(data, refused) {
		return data
	}
	var escaped bytes.Buffer
	for _, r := range string(data) {
		if refused(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.Bytes()
}

// refused reports whether YAML can have the character only escaped, or takes it for a line
// break. JSON escapes those below 0x20.
func refused(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff
}
