package plainyaml

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var cases = flag.Int("cases", 100_000, "number of random texts of TestRandomTexts")

// compare checks that ToJSON converts a text as the library does, or not at all.
func compare(t *testing.T, data []byte) (converted bool) {
	t.Helper()
	got, ok := ToJSON(data)
	if !ok {
		return false
	}
	want, err := yaml.YAMLToJSONStrict(data)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%q is\n%s\nand the library has\n%s, %v", data, got, want, err)
	}
	return true
}

// Manifests as people and kubeadm write them are converted.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("../../../../examples/manifests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range append(files, "testdata/kubeadm.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !compare(t, data) {
				t.Error("it is left to the library")
			}
		})
	}
}

// What is not plain is left to the library.
func TestNotPlain(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "comment": "# a\n", "list": "- a\n", "scalar": "a\n", "tab": "a:\tb\n", "carriage return": "a: b\r\n", "not ASCII": "a: ä\n",
		"two documents": "a: b\n---\nc: d\n", "end of a document": "a: b\n...\n", "directive": "%YAML 1.1\n---\na: b\n",
		"anchor": "a: &x b\nc: *x\n", "tag": "a: !!str 1\n", "merge": "<<: {a: b}\n", "literal": "a: |\n  b\n", "folded": "a: >\n  b\n",
		"longer scalar": "a: b\n  c\n", "scalar below": "a:\n  b\n", "duplicate": "a: b\na: c\n", "duplicate in a flow": "a: {b: 1, b: 2}\n",
		"boolean of 1.1": "a: yes\n", "boolean key": "on: a\n", "null key": "null: a\n", "number key": "1: a\n", "octal": "a: 010\n", "hex": "a: 0x1f\n", "float": "a: 1.5\n",
		"exponent": "a: 1e3\n", "underscore": "a: 1_000\n", "timestamp": "a: 2020-01-01\n", "infinity": "a: -.inf\n", "negative": "a: -1\n",
		"escape": `a: "b\n"` + "\n", "quote in quotes": "a: 'it''s'\n", "colon": "a: b: c\n", "colon at the end": "a: b:\n", "after quotes": "a: 'b' c\n",
		"lines of a flow": "a: [b,\n  c]\n", "comma at the end": "a: [b, ]\n", "no space in a flow": "a: {b:c}\n", "item of items": "a:\n- - b\n", "empty item": "a:\n-\n",
		"less indented": "a:\n    b: c\n  d: e\n", "more indented": "a: b\n  c: d\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := ToJSON([]byte(text)); ok {
				t.Errorf("%q is %s", text, got)
			}
		})
	}
}

// pieces are the parts of random texts: plain YAML, and YAML that hardly differs from it.
var pieces = strings.Split(`a|b|name|value|on|y|null|true|False|~|1|0|007|-1|1.5|1e3|0x1|0o7|0b1|1_0|100m|10.0.0.1|10.0.0.1:80|2020-01-01|2020-01-01T00:00:00Z|.5|.|..|./a|-.inf|--|--flag=x|-a|- |-|: |:| : |`+
	` |  |    |#| #| # c|"|'|"a"|'a'|"1"|''|""|"a: b"|'a # b'|"\n"|[|]|{|}|[]|{}|[a]|[a, b]|{a: b}|{a: b, c: d}|,|, |&x|*x|!!str|\||>|?|? |%|@|<|<<|&|/|/etc/x|_|$(A)|(|=|;|a b|a:b|a#b|---|...|`+
	"\n|\n|\n|\n  |\n  |\n- |\n  - |\n    |\na: |\n  a: |\nb:|\n---\n|\n...\n|\t|\r\n|ä|\x7f|e|E|+|+1|1e|1d|12e03|0b|1b|00|0|0.|1.|1..2|xyz: 1|a/b.c-d_e: f", "|")

// ToJSON converts any text as the library does, or not at all.
func TestRandomTexts(t *testing.T) {
	converted := 0
	for seed := range uint64(*cases) {
		random := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		for range 1 + random.IntN(14) {
			if random.IntN(3) == 0 {
				b.WriteString([]string{"\na: ", "\nb:\n  ", "\n  c: ", "\nd:\n- ", "\n- ", "\n  e: "}[random.IntN(6)])
			}
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		if compare(t, []byte(b.String())) {
			converted++
		}
	}
	if converted < *cases/200 {
		t.Errorf("only %d of %d are converted", converted, *cases)
	}
	t.Logf("%d of %d are converted", converted, *cases)
}

// A manifest with one change is converted as the library does, or not at all.
func TestChangedManifests(t *testing.T) {
	whole, err := os.ReadFile("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(*cases / 50) {
		random := rand.New(rand.NewPCG(seed, 2))
		from := random.IntN(len(whole))
		to := min(from+random.IntN(4), len(whole))
		compare(t, []byte(string(whole[:from])+pieces[random.IntN(len(pieces))]+string(whole[to:])))
	}
}

func FuzzToJSON(f *testing.F) {
	for _, piece := range pieces {
		f.Add([]byte("a:\n- b: " + piece + "\n  c: {d: e}\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data) })
}

func BenchmarkToJSON(b *testing.B) {
	data, err := os.ReadFile("testdata/kubeadm.yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("plainyaml", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ToJSON(data)
		}
	})
	b.Run("sigs.k8s.io/yaml", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = yaml.YAMLToJSONStrict(data)
		}
	})
}
