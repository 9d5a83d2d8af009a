package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestThePageIsUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, target))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v): run make generate", target, err)
	}
	for _, part := range []string{"## Update\n", "| `ADD` |", "| `initialSyncComplete` | boolean, optional |", "[Op](#op)"} {
		if !bytes.Contains(want, []byte(part)) {
			t.Errorf("the page does not have %q", part)
		}
	}
}
