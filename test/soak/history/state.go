package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// selected returns those pods of a state that are selected.
func selected(state map[key]Pod, s Selection) map[key]Pod {
	if (s == Selection{}) {
		return state
	}
	out := make(map[key]Pod)
	for k, p := range state {
		if s.Matches(p) {
			out[k] = p
		}
	}
	return out
}

// named returns the pod that each name shows: that of the first source, and of this the one
// with the lowest UID.
func named(state map[key]Pod, s Selection) map[name]Pod {
	out := make(map[name]Pod)
	for _, p := range state {
		first, there := out[p.name()]
		if !there || p.Source < first.Source || p.Source == first.Source && p.UID < first.UID {
			out[p.name()] = p
		}
	}
	maps.DeleteFunc(out, func(_ name, p Pod) bool { return !s.Matches(p) })
	return out
}

// difference says how two states differ. It is empty if they are the same.
func difference[K comparable](got, want map[K]Pod) string {
	if maps.Equal(got, want) {
		return ""
	}
	var lines []string
	for k, w := range want {
		if g, there := got[k]; !there {
			lines = append(lines, fmt.Sprintf("no %v", w))
		} else if g != w {
			lines = append(lines, fmt.Sprintf("%v instead of %v", g, w))
		}
	}
	for k, g := range got {
		if _, there := want[k]; !there {
			lines = append(lines, fmt.Sprintf("%v too much", g))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
