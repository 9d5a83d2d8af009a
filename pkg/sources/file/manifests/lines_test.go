package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/manifest"
)

func TestLinesAroundAFault(t *testing.T) {
	nine := []byte("1\n2\r\n3\n4\n5\n6\n7\n8\n9")
	for _, c := range []struct {
		name  string
		data  []byte
		lines []int
		want  *v1alpha1.ManifestFault
	}{
		{"middle", nine, []int{5}, &v1alpha1.ManifestFault{Line: 5, FirstLine: 2, Lines: []string{"2", "3", "4", "5", "6", "7", "8"}}},
		{"first line", nine, []int{1}, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{"1", "2", "3", "4"}}},
		{"last line", nine, []int{9}, &v1alpha1.ManifestFault{Line: 9, FirstLine: 6, Lines: []string{"6", "7", "8", "9"}}},
		{"the first known line", nine, []int{0, 9, 1}, &v1alpha1.ManifestFault{Line: 9, FirstLine: 6, Lines: []string{"6", "7", "8", "9"}}},
		{"unknown", nine, []int{0}, nil},
		{"none", nine, nil, nil},
		{"behind the end", nine, []int{10}, nil},
		{"empty", nil, []int{1}, nil},
		{"long", []byte(strings.Repeat("é", 101) + "x"), []int{1}, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{strings.Repeat("é", 100) + "…"}}},
		{"cut inside of a character", []byte("x" + strings.Repeat("é", 101)), []int{1}, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{"x" + strings.Repeat("é", 99) + "\uFFFD…"}}},
		{"no text", []byte("a\xffb\x00\n"), []int{1}, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{"a\uFFFDb\x00"}}},
	} {
		faults := make([]manifest.Fault, 0, len(c.lines))
		for _, line := range c.lines {
			faults = append(faults, manifest.Fault{Line: line})
		}
		if diff := cmp.Diff(c.want, around(c.data, faults)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
