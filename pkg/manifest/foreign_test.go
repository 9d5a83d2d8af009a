package manifest

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
)

// An error that many manifests get has no name of the pod of another one.
func TestSharedErrorsHaveNoName(t *testing.T) {
	args := strings.Repeat(", x", maxValues+1)
	_, _, err := NewDecoder("node1").DecodeFile("/m/f", podWith("[x"+args+"]"))
	if refused, _ := errors.AsType[*Error](err); refused == nil || refused.Reason != ReasonTooLarge || refused.Name != "a-node1" || errTooManyValues.Name != "" {
		t.Errorf("got %v, and the shared error has the name %q", err, errTooManyValues.Name)
	}
}

// What is not meant as a pod is told from what is meant as one and has a fault.
func TestForeign(t *testing.T) {
	for name, test := range map[string]struct {
		data    string
		foreign bool
	}{
		"empty":                             {"", true},
		"spaces":                            {" \n\n", true},
		"a comment":                         {"# nothing yet", true},
		"a text":                            {"just some words", true},
		"a text that is no YAML":            {"Notes: how to: ask", true},
		"a list":                            {"- a\n- b", true},
		"a number":                          {"7", true},
		"binary":                            {"\x7fELF\x00\x01", true},
		"very many values":                  {"[" + strings.Repeat("0,", maxValues) + "0]", true},
		"very many values of an object":     {"kind: x\na: [" + strings.Repeat("0,", maxValues) + "0]", false},
		"other settings":                    {"resources: [web.yaml]", true},
		"another kind":                      {"apiVersion: v1\nkind: ConfigMap", true},
		"another kind with an odd spec":     {"apiVersion: v1\nkind: ConfigMap\nspec: 7", true},
		"another kind in JSON":              {`{"kind":"ConfigMap","apiVersion":"v1"}`, true},
		"only a version":                    {"apiVersion: v1\nmetadata: {name: a}", true},
		"only the kind":                     {"kind: Pod", false},
		"the kind in another case":          {"apiVersion: v1\nkind: pod", false},
		"another version":                   {"apiVersion: v2\nkind: Pod", false},
		"containers without a kind":         {"spec: {containers: [{name: c}]}", false},
		"a list of pods":                    {"apiVersion: v1\nkind: PodList\nitems: []", false},
		"a list of objects":                 {"apiVersion: v1\nkind: List\nitems: []", false},
		"YAML that ends early":              {"apiVersion: v1\nkind: Pod\nmetadata: [", false},
		"JSON that ends early":              {`{"apiVersion": "v1", "kind": "Pod", "spec": {`, false},
		"a template":                        {"{{ if .web }}\napiVersion: v1\nkind: Pod\n", false},
		"a conflict":                        {"<<<<<<< HEAD\napiVersion: v1\n=======\nkind: Pod\n", false},
		"a pod with a fault":                {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}", false},
		"UTF-16 without a mark":             {"k\x00i\x00n\x00d\x00:\x00 \x00P\x00o\x00d\x00", false},
		"a text in UTF-16 without a mark":   {"w\x00o\x00r\x00d\x00", true},
		"another text with one of the keys": {"hello\n  kind: of a text: yes", false},
		"a pod after an empty document":     {"---\n# web\n---\napiVersion: v1\nkind: Pod", false},
		"a pod after another object":        {"apiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\n\"kind\": 'Pod' # web", false},
		"other objects, one for pods":       {"apiVersion: v1\nkind: ConfigMap\n---\nkind: PodDisruptionBudget\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := NewDecoder("node1").DecodeFile("/m/f", []byte(test.data))
			if refused, _ := errors.AsType[*Error](err); refused == nil || refused.Foreign != test.foreign {
				t.Errorf("%v, want foreign %t", err, test.foreign)
			}
		})
	}
}

// However a manifest writes that it is a pod: it is one here if it is one for the decoder of a kubelet.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod.
func TestWaysToWriteAPod(t *testing.T) {
	const body = "metadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n"
	const members = `"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}`
	for _, data := range []string{
		"KIND: Pod\nAPIVERSION: v1\n" + body,
		"Kind: Pod\napiVersion: v1\n" + body,
		"\ufeffkind: Pod\napiVersion: v1\n" + body,
		"? kind\n: Pod\n? apiVersion\n: v1\n" + body,
		"!!str kind: Pod\n!!str apiVersion: v1\n" + body,
		"\"k\\u0069nd\": Pod\n\"apiV\\u0065rsion\": v1\n" + body,
		"--- {kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}",
		"%YAML 1.1\n---\nkind: Pod\napiVersion: v1\n" + body,
		"{kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}",
		`{"kind":"Pod","apiVersion":"v1",` + members + `}`,
		`{"Kind":"Pod","ApiVersion":"v1",` + members + `}`,
		`{"kind":"ConfigMap","kind":"Pod","apiVersion":"v1",` + members + `}`,
		`{"kind":"Pod","kind":"ConfigMap","apiVersion":"v1",` + members + `}`,
		`{"kind":"ConfigMap","Kind":"Pod","apiVersion":"v1",` + members + `}`,
		"kind: ConfigMap\nKind: Pod\napiVersion: v1\n" + body,
		"kind: Pod\nkind: Pod\napiVersion: v1\n" + body,
		"\r\nkind: Pod\r\napiVersion: v1\r\n" + strings.ReplaceAll(body, "\n", "\r\n"),
		"kind: Pod\rapiVersion: v1\r" + strings.ReplaceAll(body, "\n", "\r"),
		"kind: Pod\napiVersion: v1\n" + body + "---\n{{",
		"kind: Pod\napiVersion: v1\n" + body + "...\nfoo",
		"kind: &a Pod\napiVersion: v1\n" + body,
		"x: &a {kind: Pod, apiVersion: v1}\n<<: *a\n" + body,
		"x: &a Pod\nkind: *a\napiVersion: v1\n" + body,
		"kind: |-\n  Pod\napiVersion: >-\n  v1\n" + body,
		`{"kind":"Pod","apiVersion":"v1",` + members + `} {"a":1}`,
		`{"kind":"Pod","apiVersion":"v1",` + members + `}` + "\x00",
		`  {"kind":"Pod","apiVersion":"v1",` + members + `}`,
		"kind: Pod\napiVersion: v1\n" + body + "\x00",
		"'kind': 'Pod'\n'apiVersion': 'v1'\n" + body,
		"kind: Pod\napiVersion: v1\nmetadata: {name: a, labels: {a: 1e3}}\nspec: {containers: [{name: c, image: i}]}\n",
	} {
		runs := false
		if object, err := utilyaml.ToJSON([]byte(data)); err == nil {
			decoded, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), object)
			pod, ok := decoded.(*api.Pod)
			runs = err == nil && ok && len(pod.Spec.Containers) > 0
		}
		if _, _, err := NewDecoder("node1").DecodeFile("/m/f", []byte(data)); runs != (err == nil) {
			t.Errorf("%q: a kubelet runs it: %t, and podconfigd says %v", data, runs, err)
		}
	}
}
