package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// selected returns the selected pods of a state.
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

// named returns the pod of each name, and byUID the pod of each UID, without mirror pods. Of
// several pods, one that is no mirror pod comes first, then the pod of the first source, then the
// pod with the lowest UID.
func named(state map[key]Pod, s Selection) map[name]Pod {
	pods := first(state, (*Pod).name)
	maps.DeleteFunc(pods, func(_ name, p Pod) bool { return !s.Matches(p) })
	return pods
}

func byUID(state map[key]Pod) map[string]Pod {
	pods := first(state, func(p *Pod) string { return p.UID })
	maps.DeleteFunc(pods, func(_ string, p Pod) bool { return p.Mirror })
	return pods
}

func first[K comparable](state map[key]Pod, by func(*Pod) K) map[K]Pod {
	out := make(map[K]Pod)
	for _, p := range state {
		if one, there := out[by(&p)]; !there || p.before(&one) {
			out[by(&p)] = p
		}
	}
	return out
}

func (p *Pod) before(o *Pod) bool {
	if p.Mirror != o.Mirror {
		return o.Mirror
	}
	return cmp.Or(cmp.Compare(p.Source, o.Source), cmp.Compare(p.UID, o.UID)) < 0
}

// difference describes the difference of two states; empty if they are equal.
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
