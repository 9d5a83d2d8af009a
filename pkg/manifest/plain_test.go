package manifest

import (
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
)

// checkPlain checks that both decoders say the same about a manifest that plainyaml converts.
func checkPlain(t *testing.T, data string) (isPlain bool) {
	t.Helper()
	text := newText("/m/f", []byte(data))
	json, _, err := text.toJSON()
	if err != nil || !text.isPlain {
		return false
	}
	pod, warnings, err := text.decodePod(json)
	text.isPlain = false
	wantPod, wantWarnings, wantErr := text.decodePod(json)
	if !reflect.DeepEqual(pod, wantPod) || !reflect.DeepEqual(warnings.Bounded(), wantWarnings.Bounded()) || !reflect.DeepEqual(err, wantErr) {
		t.Fatalf("%q is\n%v, %v, %v\nand without plainyaml\n%v, %v, %v", data, pod, warnings.Bounded(), err, wantPod, wantWarnings.Bounded(), wantErr)
	}
	return true
}

// A manifest that plainyaml converts gives the same pod, warnings and error as with the decoder for all other
// manifests.
func TestPlainDecoder(t *testing.T) {
	data, err := os.ReadFile("../../internal/plainyaml/testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(data)
	for _, first := range []string{
		"apiVersion: v1\nkind: Pod\n", "apiVersion: v1\nkind: Pod\nKind: Node\n", "apiVersion: v1\nkind: Pod\napiversion: v2\n", "kind: Pod\napiVersion: v1\n",
		"apiVersion: v1\nkind: Pod\nkIND: Node\n", "apiVersion: v1\nkind: PodList\n", "apiVersion: v2\nkind: Pod\n", "apiVersion: 1\nkind: Pod\n", "kind: Pod\n",
		"apiVersion: v1\nkind: {a: b}\n", "apiVersion: v1\nkind: Pod\nkinD: Node\n", "apiVersion: v1\nkind: Pod\nmetadatA: {}\n", "apiVersion: v1\nkind: Pod\nunknown: 1\n",
	} {
		if !checkPlain(t, strings.Replace(whole, "apiVersion: v1\nkind: Pod\n", first, 1)) {
			t.Errorf("%q is not plain", first)
		}
	}
	plain, lines := 0, strings.SplitAfter(whole, "\n")
	const texts = 500
	for seed := range uint64(texts) {
		random := rand.New(rand.NewPCG(seed, 3))
		at, from := random.IntN(len(lines)), random.IntN(len(lines))
		changed := strings.Join(lines[:at], "") + lines[from] + strings.Join(lines[min(at+random.IntN(3), len(lines)):], "")
		if checkPlain(t, changed) {
			plain++
		}
	}
	if plain < texts/10 {
		t.Errorf("only %d of %d are plain", plain, texts)
	}
}

func FuzzPlainDecoder(f *testing.F) {
	f.Add(good)
	f.Add(good + "Kind: Node\n")
	f.Fuzz(func(t *testing.T, data string) { checkPlain(t, data) })
}
