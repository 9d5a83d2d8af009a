package manifest

// maxValues is the maximum number of objects, lists and members of a pod. 10 MiB have
// room for five million, which take gigabytes to decode.
const maxValues = 100_000

var errTooManyValues = refuse(ReasonTooLarge, "more than %d values: a manifest must have fewer", maxValues)

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
