package manifest

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// utf16Of returns a text in UTF-16 with a byte order mark.
func utf16Of(s string) string {
	var b strings.Builder
	for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(s))...) {
		b.WriteByte(byte(unit))
		b.WriteByte(byte(unit >> 8))
	}
	return b.String()
}

// What a kubelet accepts in a manifest, and runs otherwise or not at all, is a warning in every form of a manifest. The pod keeps the field.
func TestWarningsOfMetadata(t *testing.T) {
	for field, test := range map[string]struct{ metadata, spec, warning string }{
		"deletionTimestamp":          {"deletionTimestamp: '2026-01-01T00:00:00Z'", "", "metadata.deletionTimestamp: the kubelet does not start a pod with it"},
		"deletionGracePeriodSeconds": {"deletionGracePeriodSeconds: 3", "", "metadata.deletionGracePeriodSeconds: only for a pod that is being deleted"},
		"ownerReferences":            {"ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u}]", "", "metadata.ownerReferences: ignored"},
		"resourceVersion":            {"resourceVersion: '7'", "", "metadata.resourceVersion: the apiserver refuses a mirror pod with it"},
		"finalizers":                 {"finalizers: [example.com/x]", "", "metadata.finalizers: the mirror pod has them too"},
		"generateName":               {"generateName: a-", "", "metadata.generateName: ignored"},
		"nodeName":                   {"", "nodeName: other", "spec.nodeName: ignored"},
		"the own nodeName":           {"", "nodeName: node1", ""},
		"no creationTimestamp":       {"creationTimestamp: null", "", ""},
		"a boolean of YAML 1.1":      {"labels: {a: 'x'}", "hostNetwork: yes", ""},
	} {
		t.Run(field, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, " + test.metadata + "}\nspec: {" + strings.TrimPrefix(test.spec+", ", ", ") + "containers: [{name: c, image: i}]}\n"
			json, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			list := `{"apiVersion":"v1","kind":"PodList","items":[` + string(json) + `]}`
			for form, data := range map[string]string{
				"YAML": text, "JSON": string(json), "the first document": text + "---\nkind: X\n", "after a marker": "---\n" + text,
				"UTF-16": utf16Of(text), "a mark": "\ufeff" + text, "JSON in UTF-16": utf16Of(string(json)),
				"large": "#" + strings.Repeat(" x", 1<<20) + "\n" + text, "a list": list, "a list in UTF-16": utf16Of(list),
				"an item without a kind": strings.Replace(list, `"kind":"Pod"`, `"x":"y"`, 1),
			} {
				decoder := NewDecoder("node1")
				var warnings []Fault
				if strings.Contains(form, "list") || strings.Contains(form, "item") {
					items, err := decoder.DecodeURL("http://example.com/", []byte(data))
					if err != nil {
						t.Fatal(form, err)
					}
					for item := range items {
						warnings, err = item.Warnings, item.Err
					}
					if err != nil {
						t.Fatal(form, err)
					}
				} else if _, warnings, err = decoder.DecodeFile("/m/f", []byte(data)); err != nil {
					t.Fatal(form, err)
				}
				has := func(f Fault) bool {
					return strings.HasPrefix(f.In(""), test.warning) || strings.Contains(f.In(""), ": "+test.warning)
				}
				if slices.ContainsFunc(warnings, has) != (test.warning != "") && test.warning != "" {
					t.Errorf("%s: the warnings are %v", form, warnings)
				}
				if test.warning == "" && field != "a boolean of YAML 1.1" && slices.ContainsFunc(warnings, func(f Fault) bool { return strings.HasPrefix(f.Field, "metadata") || f.Field == "spec.nodeName" }) {
					t.Errorf("%s: the warnings are %v", form, warnings)
				}
			}
		})
	}
}

// An item of a PodList that is no pod is taken as one, with a warning.
func TestItemsOfAnotherKind(t *testing.T) {
	for head, warns := range map[string]bool{
		"": false, `"kind":"Pod",`: false, `"apiVersion":"v1","kind":"Pod",`: false, `"apiVersion":"v1",`: false,
		`"kind":"ConfigMap",`: true, `"apiVersion":"apps/v1","kind":"Pod",`: true, `"apiVersion":"apps/v1",`: true, `"kind":"pod",`: true,
	} {
		items, err := NewDecoder("node1").DecodeURL("http://example.com/",
			[]byte(`{"apiVersion":"v1","kind":"PodList","items":[{`+head+`"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for item := range items {
			has := slices.ContainsFunc(item.Warnings, func(f Fault) bool {
				return strings.HasPrefix(f.Message, "ignored: each item of a PodList is a v1 Pod, got apiVersion ")
			})
			if item.Err != nil || has != warns {
				t.Errorf("%s: %v, %v", head, item.Err, item.Warnings)
			}
		}
	}
}
