package manifest

import (
	"bytes"
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

func TestFNV128a(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	want, got := fnv.New128a(), newFNV128a()
	for range 1000 {
		text := make([]byte, random.IntN(300))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		_, _ = want.Write(text)
		_, _ = got.Write(text)
		if !bytes.Equal(got.Sum([]byte("a")), want.Sum([]byte("a"))) {
			t.Fatalf("%x, want %x", got.Sum(nil), want.Sum(nil))
		}
	}
}
