package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// inContainer and inSpec are good manifests with additional lines, the first of which is
// line 9.
func inContainer(lines string) string { return good + indent("    ", lines) }
func inSpec(lines string) string      { return good + indent("  ", lines) }

func indent(by, lines string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n"+by) + "\n"
}

// faultTests are bad manifests and their faults.
var faultTests = []struct {
	name, data string
	reason     Reason
	want       []string
}{
	{
		"a string for an integer", inContainer("ports:\n- containerPort: \"80\""), ReasonInvalid,
		[]string{`web.yaml:10: spec.containers[0].ports[0].containerPort: expected integer, got string "80"`},
	},
	{
		"a number and a boolean for a string", inContainer("command: [a, 1.10]\nworkingDir: yes"), ReasonInvalid,
		[]string{
			`web.yaml:9: spec.containers[0].command[1]: expected string, got number 1.10: put it in quotes`,
			`web.yaml:10: spec.containers[0].workingDir: expected string, got boolean yes: put it in quotes`,
		},
	},
	{
		"what may be secret is not repeated", inContainer("env:\n- name: PASSWORD\n  value: 12345"), ReasonInvalid,
		[]string{`web.yaml:11: spec.containers[0].env[0].value: expected string, got number: put it in quotes`},
	},
	{
		"lists and objects", inSpec("containers: 5\nvolumes: {a: b}\nsecurityContext: []\nhostNetwork: \"true\""), ReasonInvalid,
		[]string{
			`web.yaml:9: spec.containers: expected list, got number 5`,
			`web.yaml:10: spec.volumes: expected list, got object`,
			`web.yaml:11: spec.securityContext: expected object, got list`,
			`web.yaml:12: spec.hostNetwork: expected boolean, got string "true"`,
		},
	},
	{
		"numbers that are too large", inSpec("priority: 3000000000\nactiveDeadlineSeconds: 1e30\nterminationGracePeriodSeconds: 1.5"), ReasonInvalid,
		[]string{
			`web.yaml:9: spec.priority: expected integer of 32 bits, got number 3000000000`,
			`web.yaml:10: spec.activeDeadlineSeconds: expected integer, got number 1e30`,
			`web.yaml:11: spec.terminationGracePeriodSeconds: expected integer, got number 1.5`,
		},
	},
	{
		"types that decode themselves", inContainer("resources:\n  limits:\n    memory: 64Mb\nlivenessProbe:\n  httpGet: {port: true}"), ReasonInvalid,
		[]string{
			`web.yaml:11: spec.containers[0].resources.limits[memory]: expected quantity such as 500m or 64Mi, got string "64Mb"`,
			`web.yaml:13: spec.containers[0].livenessProbe.httpGet.port: expected integer or string, got boolean true`,
		},
	},
	{
		"behind an alias and a merge", "x: &x {image: 5}\n" + good + "  - <<: *x\n    name: z\n", ReasonInvalid,
		[]string{`web.yaml:1: spec.containers[1].image: expected string, got number 5: put it in quotes`},
	},
	{
		"keys with dots", strings.Replace(good, "metadata:\n", "metadata:\n  labels:\n    a.b/c: 5\n", 1), ReasonInvalid,
		[]string{`web.yaml:5: metadata.labels[a.b/c]: expected string, got number 5: put it in quotes`},
	},
	{
		"rules of the API", strings.Replace(inContainer("ports: [{containerPort: 70000}]"), "    image: nginx:1.27\n", "", 1), ReasonInvalid,
		[]string{
			`web.yaml:7: spec.containers[0].image: Required value`,
			`web.yaml:8: spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive`,
		},
	},
	{
		"no containers", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  hostNetwork: true\n", ReasonInvalid,
		[]string{`web.yaml:5: spec.containers: Required value`},
	},
	{
		"references", inSpec("serviceAccountName: builder"), ReasonForbidden,
		[]string{`web.yaml:9: spec.serviceAccountName: static pods can't refer to API objects: serviceaccounts`},
	},
	{
		"references of two volumes", inSpec("nodeSelector: {secret: a}\nvolumes:\n- name: a\n  secret: {secretName: s}\n- {name: b, secret: {secretName: t}}"), ReasonForbidden,
		[]string{
			`web.yaml:12: spec.volumes[0].secret: static pods can't refer to API objects: secrets`,
			`web.yaml:13: spec.volumes[1].secret: static pods can't refer to API objects: secrets`,
		},
	},
	{"another kind", "apiVersion: apps/v1\nkind: Deployment\nspec: 5\n", ReasonNotAPod, []string{
		`web.yaml:2: kind: expected apiVersion v1, kind Pod, got apiVersion apps/v1, kind Deployment`,
	}},
	{"another version", "# a\napiVersion: v2\nkind: Pod\n", ReasonNotAPod, []string{
		`web.yaml:2: apiVersion: expected apiVersion v1, kind Pod, got apiVersion v2, kind Pod`,
	}},
	{"neither version nor kind", "\n\nmetadata: {}\n", ReasonNotAPod, []string{
		`web.yaml:3: apiVersion: Required value: expected v1`, `web.yaml:3: kind: Required value: expected Pod`,
	}},
	{"a version that is a number", "apiVersion: 1\nkind: Pod\n", ReasonInvalid, []string{
		`web.yaml:1: apiVersion: expected string, got number 1: put it in quotes`,
	}},
	{"an error in the first line", "\tkind: Pod\n", ReasonNotYAML, []string{
		`web.yaml:1: neither YAML nor JSON: a tab indents the line: use spaces`,
	}},
	{"a tab before a key", strings.Replace(good, "  name: web", "\tname: web", 1), ReasonNotYAML, []string{
		`web.yaml:4: neither YAML nor JSON: a tab indents the line: use spaces`,
	}},
	{"a tab after spaces", strings.Replace(good, "    image:", "  \t  image:", 1), ReasonNotYAML, []string{
		`web.yaml:8: neither YAML nor JSON: a tab indents the line: use spaces`,
	}},
	{"a tab after a dash", strings.Replace(good, "- name:", "-\tname:", 1), ReasonNotYAML, []string{
		`web.yaml:7: neither YAML nor JSON: a tab indents the line: use spaces`,
	}},
	{"a tab in a block", inContainer("command:\n- |\n  a") + "\tb\n", ReasonNotYAML, []string{
		`web.yaml:12: neither YAML nor JSON: a tab indents the line: use spaces`,
	}},
	{"a reserved character", inContainer("workingDir: @x"), ReasonNotYAML, []string{
		`web.yaml:9: neither YAML nor JSON: a text can't begin with @: put it in quotes`,
	}},
	{"a name", strings.Replace(good, "  name: web\n", "  name: Web_1\n", 1), ReasonInvalid, []string{
		`web.yaml:4: metadata.name: Invalid value: "Web_1-node1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ` +
			`and must start and end with an alphanumeric character (e.g. 'example.com')`,
	}},
	{"an error in a later line", good + "  a: b: c\n", ReasonNotYAML, []string{
		`web.yaml:9: neither YAML nor JSON: mapping values are not allowed in this context`,
	}},
	{"an unknown anchor", good + "  volumes: *v\n", ReasonNotYAML, []string{
		`web.yaml:9: neither YAML nor JSON: unknown anchor 'v' referenced`,
	}},
	{"a control character", good + "# \x01\n", ReasonNotYAML, []string{
		`web.yaml:9: neither YAML nor JSON: control characters are not allowed`,
	}},
	{"another version of YAML", "# c\n%YAML 1.2\n---\n" + good, ReasonNotYAML, []string{
		`web.yaml:2: neither YAML nor JSON: expected YAML 1.1: remove the %YAML directive`,
	}},
	{"another version of YAML, after a comment about it", "# no %YAML\n%YAML 1.2\n---\n" + good, ReasonNotYAML, []string{
		`web.yaml:2: neither YAML nor JSON: expected YAML 1.1: remove the %YAML directive`,
	}},
	{"not UTF-8", good + "# \xff\n", ReasonNotYAML, []string{
		`web.yaml:9: neither YAML nor JSON: invalid leading UTF-8 octet`,
	}},
	{"half", good[:len(good)-len("image: nginx:1.27\n")] + "\"image", ReasonNotYAML, []string{
		`web.yaml:8: neither YAML nor JSON: found unexpected end of stream`,
	}},
	{"broken JSON", "{\n \"apiVersion\": \"v1\",\n \"kind\": \"Pod\",\n}", ReasonNotYAML, []string{
		`web.yaml:4: starts with {, but is not valid JSON: invalid character '}' looking for beginning of object key string; if it is YAML, begin it with ---`,
	}},
	{"a flow mapping", "{apiVersion: v1, kind: Pod}", ReasonNotYAML, []string{
		`web.yaml:1: starts with {, but is not valid JSON: invalid character 'a' looking for beginning of object key string; if it is YAML, begin it with ---`,
	}},
	{"no name", strings.Replace(good, "  name: web\n", "  labels: {}\n", 1), ReasonInvalid, []string{
		`web.yaml:3: metadata.name: Required value: a pod needs a name`,
	}},
	{"many faults", inContainer("command: [" + strings.TrimSuffix(strings.Repeat("1,", 25), ",") + "]"), ReasonInvalid, append(
		manyFaults(20), "and 5 more",
	)},
}

func manyFaults(n int) (faults []string) {
	for i := range 25 {
		faults = append(faults, fmt.Sprintf("web.yaml:9: spec.containers[0].command[%d]: expected string, got number 1: put it in quotes", i))
	}
	slices.Sort(faults)
	return faults[:n]
}

func in(faults []Fault) (lines []string) {
	for _, f := range faults {
		lines = append(lines, f.In("web.yaml"))
	}
	return lines
}

func TestFaultsSayWhere(t *testing.T) {
	for _, test := range faultTests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := decode(t, test.data)
			refused, ok := errors.AsType[*Error](err)
			if !ok || refused.Reason != test.reason {
				t.Fatalf("error %v, want %s", err, test.reason)
			}
			if got := in(refused.Faults); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if want := strings.Join(test.want, "; "); err.Error() != want {
				t.Errorf("as one error it is %q", err)
			}
		})
	}
}

// utf16le encodes with a byte order mark.
func utf16le(s string) string {
	var b strings.Builder
	for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(s))...) {
		b.WriteByte(byte(unit))
		b.WriteByte(byte(unit >> 8))
	}
	return b.String()
}

// What the kubelet ignores is a warning, and the pod is accepted.
func TestWarnings(t *testing.T) {
	polcy := []string{`web.yaml:9: spec.containers[0].imagePullPolcy: unknown field, ignored; did you mean imagePullPolicy?`}
	for _, test := range []struct {
		name, data string
		want       []string
	}{
		{"none", good, nil},
		{"a misspelled field", inContainer("imagePullPolcy: Always"), polcy},
		{"several", inSpec("contaners: []\nhostnetwork: true\nimage: x\nzzzz: {a: b}\na.b: c"), []string{
			`web.yaml:9: spec.contaners: unknown field, ignored; did you mean containers?`,
			`web.yaml:10: spec.hostnetwork: unknown field, ignored; did you mean hostNetwork?`,
			`web.yaml:11: spec.image: unknown field, ignored`,
			`web.yaml:12: spec.zzzz: unknown field, ignored`,
			`web.yaml:13: spec.a.b: unknown field, ignored`,
		}},
		{"at the top", "meta: {}\n" + good, []string{`web.yaml:1: meta: unknown field, ignored`}},
		{"inline fields", inSpec("volumes: [{name: v, hostPth: {path: /}, emptyDir: {}}]"), []string{
			`web.yaml:9: spec.volumes[0].hostPth: unknown field, ignored; did you mean hostPath?`,
		}},
		{"a duplicate key", inContainer("image: nginx:1.28"), []string{
			`web.yaml:9: spec.containers[0].image: duplicate key, also in line 8; only the last value counts`,
		}},
		{"duplicate objects", good + "metadata: {name: other}\n", []string{
			`web.yaml:9: metadata: duplicate key, also in line 3; only the last value counts`,
		}},
		{"a merge that is overridden is none", "x: &x {name: a, image: b}\n" + good + "  - <<: *x\n    name: z\n", []string{
			`web.yaml:1: x: unknown field, ignored`,
		}},
		{"a key that is an alias", "a: &k b\n*k : c\n*k : d\n" + good, []string{
			`web.yaml:1: a: unknown field, ignored`,
			`web.yaml:3: b: unknown field, ignored`,
			`web.yaml:3: b: duplicate key, also in line 2; only the last value counts`,
		}},
		{"CRLF", strings.ReplaceAll(inContainer("imagePullPolcy: Always"), "\n", "\r\n"), polcy},
		{"a byte order mark", "\ufeff" + inContainer("imagePullPolcy: Always"), polcy},
		{"UTF-16", utf16le(inContainer("imagePullPolcy: Always")), polcy},
		{
			"JSON", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},` + "\n" + `"spec":{"containers":[{"name":"a","name":"b",` + "\n" + `"image":"c","Tty":true}]}}`,
			[]string{
				`web.yaml:2: spec.containers[0].name: duplicate key`,
				`web.yaml:3: spec.containers[0].Tty: unknown field, ignored; did you mean tty?`,
			},
		},
		{"a class without a priority", inSpec("priorityClassName: system-node-critical"), []string{
			`web.yaml:9: spec.priorityClassName: the kubelet ignores the class of a static pod without a priority, and its mirror pod may be refused: add spec.priority with the value of the class`,
		}},
		{"a priority without a class", inSpec("priority: 5"), []string{
			`web.yaml:9: spec.priority: without spec.priorityClassName, the mirror pod is refused if the default class has another priority`,
		}},
		{"another priority than that of the node's components", inSpec("priority: 5\npriorityClassName: low"), []string{
			`web.yaml:9: spec.priority: a static pod whose priority is not 2000001000 of system-node-critical can be preempted or evicted through its mirror pod, without effect`,
		}},
		{"the priority of the node's components", inSpec("priority: 2000001000\npriorityClassName: system-node-critical"), nil},
		{"several documents", good + "---\n# nothing\n---\n" + good, []string{
			`web.yaml:11: 1 more YAML document(s) after the first are ignored, as the kubelet does: put each pod in its own file`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, warnings, err := decode(t, test.data)
			if err != nil {
				t.Fatal(err)
			}
			if got := in(warnings); !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if kubelets, err := kubeletsDecode([]byte(test.data)); err != nil || kubelets.Name+"-node1" != pod.Name || kubelets.Spec.Containers[0].Image != pod.Spec.Containers[0].Image {
				t.Errorf("the kubelet decodes %v, %v", kubelets, err)
			}
		})
	}
}

// A manifest that is refused has its warnings too.
func TestWarningsBesideAnError(t *testing.T) {
	_, warnings, err := decode(t, strings.Replace(inContainer("imagePullPolcy: Always"), "image: nginx:1.27", "image: ''", 1))
	if err == nil || len(warnings) != 1 {
		t.Errorf("error %v, warnings %v", err, warnings)
	}
}

// The faults of a large manifest have no lines, and its duplicate keys are not found. A
// manifest that is made to be expensive is refused.
func TestLargeManifests(t *testing.T) {
	testutil.Exhaustive(t)
	padding := "#" + strings.Repeat(" x", yamlfault.MaxLength/2) + "\n"
	_, warnings, err := decode(t, padding+inContainer("image: a\nimagePullPolcy: b"))
	want := []string{`spec.containers[0].imagePullPolcy: unknown field, ignored; did you mean imagePullPolicy?`}
	if got := in(warnings); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, got %q", err, got)
	}
	for _, data := range []string{
		strings.Repeat("a:\n", 1<<19), strings.Repeat("- ", 1<<20), strings.Repeat("[", 1<<20), strings.Repeat("{\"a\":", 1<<20),
	} {
		if _, _, err := decode(t, data); err == nil {
			t.Errorf("%.10q is accepted", data)
		}
	}
	// Locating a fault visits all keys beside it, so not all of many faults are yamlfault.
	var labels strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&labels, "    l%d: 5\n", i)
	}
	_, _, err = decode(t, strings.Replace(good, "metadata:\n", "metadata:\n  labels:\n"+labels.String(), 1))
	if err == nil || !strings.Contains(err.Error(), "and 29980 more") || !strings.HasPrefix(err.Error(), "web.yaml:5: metadata.labels[l0]: expected string") {
		t.Error(err)
	}
}

// The faults of a list's items have the path within the item, and the line if the answer
// has several lines.
func TestFaultsOfItems(t *testing.T) {
	const item = `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","tti":true}]}}`
	list := "apiVersion: v1\nkind: PodList\nitems:\n- " + item + "\n- metadata: {name: b, name: c}\n  spec: {containers: [{name: 5, image: i}]}\n- 1\n"
	for name, test := range map[string]struct {
		data string
		want []string
	}{
		"YAML": {list, []string{
			"line 4: spec.containers[0].tti: unknown field, ignored; did you mean tty?",
			"line 5: metadata.name: duplicate key, also in line 5; only the last value counts",
			"line 6: spec.containers[0].name: expected string, got number 5: put it in quotes",
			"line 7: not a Kubernetes object: expected a v1 Pod",
		}},
		"JSON": {`{"apiVersion":"v1","kind":"PodList","items":[` + item + `]}`, []string{
			"spec.containers[0].tti: unknown field, ignored; did you mean tty?",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := NewDecoder("node").DecodeURL("http://example.com", []byte(test.data))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for item := range items {
				for _, warning := range item.Warnings {
					got = append(got, warning.In(""))
				}
				if item.Err != nil {
					got = append(got, item.Err.Error())
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// A warning on an unknown field names the known field at the same place that is most similar.
func TestNearest(t *testing.T) {
	for name, test := range map[string]struct{ pod, want string }{
		"an item of a list": {`{"spec": {"containers": [{"imagePullPolcy": 1}]}}`, "spec.containers[0].imagePullPolcy: unknown field; did you mean imagePullPolicy?"},
		"another case":      {`{"spec": {"containers": [{}, {"Ports": 1}]}}`, "spec.containers[1].Ports: unknown field; did you mean ports?"},
		"a letter less":     {`{"spec": {"initContainer": 1}}`, "spec.initContainer: unknown field; did you mean initContainers?"},
		"at the top":        {`{"specs": 1}`, "specs: unknown field; did you mean spec?"},
		"two letters":       {`{"metadata": {"lables": 1}}`, "metadata.lables: unknown field; did you mean labels?"},
		"nothing similar":   {`{"spec": {"nonsense": 1}}`, "spec.nonsense: unknown field"},
		"very long":         {`{"spec": {"` + strings.Repeat("x", 100) + `": 1}}`, "spec." + strings.Repeat("x", 100) + ": unknown field"},
		"far below": {
			`{"spec": {"containers": [{"env": [{"valueFrom": {"fieldRef": {"fieldpath": 1}}}]}]}}`,
			"spec.containers[0].env[0].valueFrom.fieldRef.fieldpath: unknown field; did you mean fieldPath?",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := newText("", []byte(test.pod)).Unknown([]byte(test.pod), podType, "")
			if faults := found.Faults(); len(faults) != 1 || faults[0].In("") != test.want {
				t.Errorf("got %v, want %s", faults, test.want)
			}
		})
	}
}

// To find an unknown field, the types of the API are looked at once, not for each object of a manifest.
func TestUnknownFieldAmongManyObjects(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n%s  containers:\n" + strings.Repeat("  - {name: c, image: i}\n", 1000)
	allocations := func(unknown string) float64 {
		text := newText("/m/f", fmt.Appendf(nil, pod, unknown))
		json, _, err := text.toJSON()
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(2, func() {
			if _, _, err := text.decodePod(json); err != nil {
				t.Fatal(err)
			}
		})
	}
	if without, with := allocations(""), allocations("  unknown: 1\n"); with > 4*without {
		t.Errorf("%v allocations with an unknown field, %v without one", with, without)
	}
}
