package manifest

// maxValues is how many objects, lists and members a pod may have. In 10 MiB there is room
// for five million, of which decoding makes gigabytes.
const maxValues = 100_000

var errTooManyValues = refuse(ReasonTooLarge, "more than %d values: a manifest must have fewer", maxValues)

// tooMany tells whether there are more than maxValues in JSON: whether it opens objects and
// lists, and separates their members, more often than that.
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
