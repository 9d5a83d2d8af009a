package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podconfigd/podconfigd/test/soak/history"
)

const nodeName = "node1"

// manifest is a pod as a source has it.
type manifest struct {
	namespace, name, uid, version, tier string
	// size is how many bytes are added, so that some updates take several messages.
	size int
	// status and grace are for a pod of the apiserver.
	status, grace string
	mirror        bool
}

func (m manifest) json() string {
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": m.namespace, "name": m.name, "uid": m.uid,
			"labels":      map[string]string{"version": m.version, "tier": m.tier},
			"annotations": map[string]string{"fill": strings.Repeat("x", m.size)},
		},
		"spec": map[string]any{"containers": []any{map[string]string{"name": "c", "image": "i"}}},
	})
	if err != nil {
		panic(err) // of maps and strings
	}
	return string(data)
}

func (m manifest) pod(source string) history.Pod {
	name := m.name
	if source != apiSource {
		name += "-" + nodeName
	}
	return history.Pod{
		Source: source, Namespace: m.namespace, Name: name, UID: m.uid, Version: m.version, Tier: m.tier,
		Status: m.status, Grace: m.grace, Mirror: m.mirror,
	}
}

// truth is what the sources have, by source and the name of the pod.
type truth map[string]map[string]manifest

// of returns what a subscriber must hold. Of two pods with the same key, one that is no mirror pod
// counts, then the pod of the first source.
func (t truth) of(s *subscriber) map[string]history.Pod {
	pods := make(map[string]history.Pod)
	for _, source := range slices.Sorted(maps.Keys(t)) {
		for _, m := range t[source] {
			p := m.pod(source)
			if first, there := pods[s.key(p)]; !there || first.Mirror && !p.Mirror {
				pods[s.key(p)] = p
			}
		}
	}
	maps.DeleteFunc(pods, func(_ string, p history.Pod) bool { return !s.history.Selection.Matches(p) })
	return pods
}

// same says how what a subscriber holds differs from what it must hold; nil if it does not.
func same(got, want map[string]history.Pod) error {
	if maps.Equal(got, want) {
		return nil
	}
	var diff []string
	for key, w := range want {
		if g := got[key]; g != w {
			diff = append(diff, fmt.Sprintf("holds %v, want %v", g, w))
		}
	}
	for key, g := range got {
		if _, there := want[key]; !there {
			diff = append(diff, fmt.Sprintf("holds %v, want nothing", g))
		}
	}
	slices.Sort(diff)
	return fmt.Errorf("%s", strings.Join(diff, "\n"))
}
