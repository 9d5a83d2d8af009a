package kubelets

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/testutil/canary"
)

// Manifest is the content of a file, or the answer of a URL.
type Manifest struct {
	ID   string `json:"id"`
	File string `json:"file,omitempty"`
	URL  string `json:"url,omitempty"`
	Data []byte `json:"data"`
}

// object is a JSON object.
type object = map[string]any

// Corpus returns the manifests: those that are written by hand, one for each field of a pod, and n
// random ones.
func Corpus(seed uint64, n int) (all []Manifest) {
	add := func(kind string, data []byte) {
		m := Manifest{ID: fmt.Sprintf("%s-%d", kind, len(all)), Data: data}
		if m.File = "/etc/kubernetes/manifests/" + m.ID + ".yaml"; strings.HasPrefix(kind, "url") {
			m.File, m.URL = "", "https://example.com/pods/"+m.ID
		}
		all = append(all, m)
	}
	for _, text := range written {
		add("written", []byte(text))
		add("url", []byte(text))
	}
	for _, text := range lists {
		add("url", []byte(text))
	}
	for _, fragment := range slices.Concat(specs, containers, metadata) {
		add("fragment", encode(build(fragment)))
	}
	for _, leaf := range leaves() {
		add("field", encode(build(leaf)))
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		pod := random(r)
		if i%8 == 0 {
			add("url", encode(object{"apiVersion": "v1", "kind": "PodList", "items": []any{pod}}))
		} else {
			add("random", encode(pod))
		}
	}
	return all
}

func encode(o object) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return data
}

// fragment is a part of a pod, as JSON.
type fragment string

// build returns a small pod with the fragments.
func build(fragments ...fragment) object {
	pod := parse(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	for _, f := range fragments {
		pod, _ = merge(pod, parse(f)).(object)
	}
	return pod
}

func parse(f fragment) (o object) {
	if err := json.Unmarshal([]byte(f), &o); err != nil {
		panic(fmt.Sprintf("%s: %v", f, err))
	}
	return o
}

// merge merges objects. In lists of objects, it merges the first elements. To other lists, it appends.
func merge(into, from any) any {
	switch from := from.(type) {
	case object:
		into, ok := into.(object)
		if !ok {
			return from
		}
		for name, value := range from {
			into[name] = merge(into[name], value)
		}
		return into
	case []any:
		into, ok := into.([]any)
		if !ok || len(into) == 0 {
			return from
		}
		a, isObject := into[0].(object)
		b, _ := from[0].(object)
		if isObject && (b["name"] == nil || b["name"] == a["name"]) {
			into[0] = merge(a, b)
			return append(into, from[1:]...)
		}
		return append(into, from...)
	}
	return from
}

// random returns a pod of random fragments.
func random(r *rand.Rand) object {
	var chosen []fragment
	pick := func(from []fragment, n int) {
		for range r.IntN(n + 1) {
			chosen = append(chosen, from[r.IntN(len(from))])
		}
	}
	pick(metadata, 2)
	pick(specs, 4)
	pick(containers, 3)
	return build(chosen...)
}

// leaves returns a fragment for each field of the spec and for each of the metadata.
func leaves() (fragments []fragment) {
	whole := new(v1.Pod)
	canary.Fill(whole, 1)
	var tree object
	if err := json.Unmarshal(encode(object{"metadata": whole.ObjectMeta, "spec": whole.Spec}), &tree); err != nil {
		panic(err)
	}
	walk(tree, func(leaf any) any { return leaf }, func(f any) {
		data, _ := json.Marshal(f) // it was JSON
		fragments = append(fragments, fragment(data))
	})
	return fragments
}

// walk calls found with the tree reduced to each of its leaves.
func walk(at any, wrap func(any) any, found func(any)) {
	switch at := at.(type) {
	case object:
		for _, name := range slices.Sorted(maps.Keys(at)) {
			if name == "name" && len(at) > 1 {
				continue // objects in lists have their name
			}
			walk(at[name], func(leaf any) any {
				o := object{name: leaf}
				if _, named := at["name"]; named {
					o["name"] = "n"
				}
				return wrap(o)
			}, found)
		}
	case []any:
		walk(at[0], func(leaf any) any { return wrap([]any{leaf}) }, found)
	case string:
		found(wrap("v"))
	default:
		found(wrap(at))
	}
}
