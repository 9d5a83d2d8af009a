// Package similar finds the name that a user meant, for errors such as "did you mean ...?".
package similar

import (
	"iter"
	"slices"
	"strings"
)

// maxName is more than the length of any name.
const maxName = 64

// To returns the known name that is most similar to a name; empty if none is similar.
func To(name string, known iter.Seq[string]) string {
	if len(name) > maxName {
		return ""
	}
	best, least := "", min(1+len(name)/4, len(name)-1) // a name with no character in common is not similar
	for _, candidate := range slices.Sorted(known) {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d <= least && (best == "" || d < least) {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the number of characters to insert, delete, replace or swap with the
// next one, to turn a into b (optimal string alignment).
func distance(a, b string) int {
	before, above := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
