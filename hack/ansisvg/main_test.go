package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheColorsAndColumnsOfALine(t *testing.T) {
	var s style
	got := parse("\x1b[1m\x1b[36mPods\x1b[0m \x1b[2m3  日本\x1b[22m  <x>", &s)
	want := []run{{0, "Pods", style{color: palette[6], bold: true}}, {5, "3  日本", style{faint: true}}, {14, "<x>", style{}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(run{}, style{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextIsEscaped(t *testing.T) {
	var out strings.Builder
	if err := convert(&out, strings.NewReader("a <b> & c\n\n"), "<title>"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">a &lt;b&gt; &amp; c</text>", "<title>&lt;title&gt;</title>"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in:\n%s", want, out.String())
		}
	}
}
