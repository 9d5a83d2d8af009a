package located

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// UTF8 returns a text as UTF-8 if it has the byte order mark of UTF-16, as YAML allows, and otherwise as it is. The mark stays,
// because a text with a mark is not JSON.
func UTF8(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe\x00\x00")): // UTF-32
		return data
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return data
	}
	if len(data)%2 != 0 {
		return data // the parser says so
	}
	units := make([]uint16, 0, len(data)/2)
	for pair := range slices.Chunk(data, 2) {
		units = append(units, order.Uint16(pair))
	}
	runes := utf16.Decode(units)
	if slices.Contains(runes, utf8.RuneError) {
		return data
	}
	return []byte(string(runes))
}

// otherEncoding says which encoding a text seems to have that YAML and JSON can't have; empty if none.
func otherEncoding(data []byte) string {
	if len(data) < 4 {
		return ""
	}
	var zeros [4]bool
	for i := range zeros {
		zeros[i] = data[i] == 0
	}
	switch zeros {
	case [4]bool{false, true, true, true}, [4]bool{true, true, true, false}, [4]bool{false, false, true, true}, [4]bool{true, true, false, false}:
		return "UTF-32"
	case [4]bool{false, true, false, true}, [4]bool{true, false, true, false}:
		return "UTF-16 without a byte order mark"
	}
	return ""
}

// WrongEncoding returns the fault of a text that is not UTF-8, if its encoding can be told.
func (t *Text) WrongEncoding() (fault Fault, found bool) {
	encoding := otherEncoding(t.Data)
	return Fault{Message: "neither YAML nor JSON: looks like " + encoding + ": save it as UTF-8"}, encoding != ""
}
