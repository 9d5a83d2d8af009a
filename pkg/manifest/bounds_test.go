package manifest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/test/testutil"
)

// podWith returns a manifest whose container has these arguments.
func podWith(args string) []byte {
	return []byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    image: i\n    args: " + args + "\n")
}

func TestAliases(t *testing.T) {
	text := strings.Repeat("x", 20<<10)
	doubled := "\n    - &a0 [x, x]\n"
	for i := range 40 {
		doubled += fmt.Sprintf("    - &a%d [*a%d, *a%[2]d]\n", i+1, i)
	}
	for _, test := range []struct {
		name, args string
		reason     Reason // empty if the aliases are no fault
	}{
		{"one text, often", "[&a " + text + strings.Repeat(", *a", 3000) + "]", ReasonTooLarge},
		{"one text, less often", "[&a " + text + strings.Repeat(", *a", 70) + "]", ""},
		{"a list of aliases", "[&a " + text + ", &b [" + strings.Repeat("*a, ", 30) + "*a]" + strings.Repeat(", *b", 30) + "]", ReasonTooLarge},
		{"bytes", "[&a !!binary " + text + strings.Repeat(", *a", 3000) + "]", ReasonTooLarge},
		{"each twice the one before", doubled, ReasonTooLarge},
		{"no alias", "[a && b *, '*a', " + strings.Repeat("'*', ", 30) + "&a x]", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := podWith(test.args)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := NewDecoder("node1").DecodeFile("/m/a.yaml", data)
			runtime.ReadMemStats(&after)
			refused, _ := errors.AsType[*Error](err)
			switch {
			case test.reason == "" && refused != nil && refused.Reason == ReasonTooLarge:
				t.Errorf("refused: %v", err)
			case test.reason != "" && (refused == nil || refused.Reason != test.reason || !strings.Contains(err.Error(), "with its aliases expanded")):
				t.Errorf("got %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; test.reason != "" && used > 16<<20 {
				t.Errorf("a manifest of %d bytes took %d bytes of memory", len(data), used)
			}
		})
	}
	if _, err := NewDecoder("node1").DecodeURL("http://x", podWith("[&a "+text+strings.Repeat(", *a", 3000)+"]")); !errors.Is(err, errAliasesTooLarge) {
		t.Errorf("from a URL: %v", err)
	}
}

// Aliases are counted by another version of the kubelet's parser. A manifest with aliases that it can't
// read is refused.
func TestAliasesThatCantBeCounted(t *testing.T) {
	data := append(podWith("[&a x"+strings.Repeat(", *a", 300)+"]"), "  b: [\n"...)
	err := newText("a.yaml", data).checkAliases()
	if refused, _ := errors.AsType[*Error](err); refused == nil || refused.Reason != ReasonNotYAML || refused.Faults[0].Line == 0 {
		t.Errorf("got %v", err)
	}
	if err := newText("a.yaml", []byte(strings.Repeat("a & b * [\n", 300))).checkAliases(); err != nil {
		t.Errorf("without aliases: %v", err)
	}
}

// A pod with very many values is refused before it is decoded.
func TestTooManyValues(t *testing.T) {
	testutil.Exhaustive(t)
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}],`
	many := strings.Repeat(",{}", 1<<20/3)
	for name, data := range map[string]string{
		"volumes":         pod + `"volumes":[{}` + many + `]}}`,
		"unknown fields":  pod + `"what":[{}` + many + `]}}`,
		"a PodList":       `{"apiVersion":"v1","kind":"PodList","items":[{}` + many + `]}`,
		"YAML":            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {volumes: [{}" + many + "]}\n",
		"a list's item":   `{"apiVersion":"v1","kind":"PodList","items":[` + pod + `"volumes":[{}` + many + `]}}]}`,
		"an escaped text": pod + `"what":"\\\"","volumes":[{}` + many + `]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			decode := func() (err error) {
				if name == "a list's item" {
					items, err := NewDecoder("node1").DecodeURL("http://example.com/", []byte(data))
					for item := range items {
						return item.Err
					}
					return err
				}
				_, _, err = NewDecoder("node1").DecodeFile("/m/f", []byte(data))
				return err
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := decode()
			runtime.ReadMemStats(&after)
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason != ReasonTooLarge || !strings.Contains(err.Error(), "more than 100000 values") {
				t.Errorf("the error is %.300v", err)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 300 {
				t.Errorf("%d MiB were allocated", mb)
			}
		})
	}
	text := strings.Repeat(`,{[\"`, 1<<20)
	data := pod + `"nodeSelector":{"a":"b"},"hostname":"` + text + `"}}`
	if _, _, err := NewDecoder("node1").DecodeFile("/m/f", []byte(data)); err == nil || strings.Contains(err.Error(), "values") {
		t.Errorf("what stands in a string counts: %.300v", err)
	}
}

// YAML that is so large that its tree takes hundreds of MiB is refused before it is parsed.
func TestYAMLThatIsTooLarge(t *testing.T) {
	for name, data := range map[string]string{
		"empty objects": "a: [{}" + strings.Repeat(",{}", 3<<20) + "]\n", "numbers": "a: [1" + strings.Repeat(",1", 4<<20) + "]\n",
		"keys": strings.Repeat("k: 1\n", 1800<<10), "items": strings.Repeat("- \n", 3<<20), "lists": strings.Repeat("[", 9<<20),
		"a list of pods": "apiVersion: v1\nkind: PodList\nitems:\n" + strings.Repeat("- {metadata: {name: a}}\n", 9<<20/24),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := NewDecoder("node1").DecodeFile("/m/f", []byte(data))
			if _, ofURL := NewDecoder("node1").DecodeURL("http://example.com/", []byte(data)); fmt.Sprint(err) != errYAMLTooLarge.Error() || !errors.Is(ofURL, errYAMLTooLarge) {
				t.Errorf("%.300v for a file, %.300v for an answer", err, ofURL)
			}
			runtime.ReadMemStats(&after)
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 100 {
				t.Errorf("%d MiB were allocated", mb)
			}
		})
	}
}

// A pod that is larger than the apiserver can store is refused. Comments and spaces in YAML do not count.
func TestPodsThatAreTooLarge(t *testing.T) {
	pod := func(length int) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","args":["` + strings.Repeat("x", length) + `"]}]}}`
	}
	room := maxPod - len(pod(0))
	for name, test := range map[string]struct {
		data    string
		refused bool
	}{
		"the largest":           {pod(room), false},
		"a byte more":           {pod(room + 1), true},
		"the largest as YAML":   {"# a comment" + strings.Repeat(" ", maxPod) + "\n" + pod(room), false},
		"a byte more as YAML":   {"# a comment\n" + pod(room+1), true},
		"the largest in a list": {`{"apiVersion":"v1","kind":"PodList","items":[` + pod(room) + `,` + pod(room) + `]}`, false},
		"comments and spaces":   {strings.Repeat("# - a: b\n  \n", 9<<20/12) + string(podWith("[x]")), false},
		"a byte more in a list": {`{"apiVersion":"v1","kind":"PodList","items":[` + pod(room+1) + `]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := NewDecoder("node1").DecodeURL("http://example.com/", []byte(test.data))
			if err != nil {
				t.Fatal(err)
			}
			for item := range items {
				err = item.Err
			}
			_, _, ofFile := NewDecoder("node1").DecodeFile("/m/f", []byte(test.data))
			if isList := strings.Contains(name, "list"); !isList && fmt.Sprint(ofFile) != fmt.Sprint(err) {
				t.Errorf("%.300v for a file, %.300v for an answer", ofFile, err)
			}
			if refused, _ := errors.AsType[*Error](err); (refused != nil) != test.refused || test.refused && (refused.Reason != ReasonTooLarge || refused.Faults[0].Message != "the pod has more than 1.5 MiB as JSON: it must be smaller") {
				t.Errorf("got %.300v", err)
			}
		})
	}
}
