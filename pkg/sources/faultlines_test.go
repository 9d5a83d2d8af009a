package sources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
)

func TestLinesAroundAFault(t *testing.T) {
	nine := []byte("1\n2\r\n3\n4\n5\n6\n7\n8\n9")
	for _, c := range []struct {
		name string
		data []byte
		line int
		want *v1alpha1.ManifestFault
	}{
		{"middle", nine, 5, &v1alpha1.ManifestFault{Line: 5, FirstLine: 2, Lines: []string{"2", "3", "4", "5", "6", "7", "8"}}},
		{"first line", nine, 1, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{"1", "2", "3", "4"}}},
		{"last line", nine, 9, &v1alpha1.ManifestFault{Line: 9, FirstLine: 6, Lines: []string{"6", "7", "8", "9"}}},
		{"unknown", nine, 0, nil},
		{"negative", nine, -1, nil},
		{"behind the end", nine, 10, nil},
		{"empty", nil, 1, nil},
		{"long", []byte(strings.Repeat("é", 101) + "x"), 1, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{strings.Repeat("é", 100) + "…"}}},
		{"cut inside of a character", []byte("x" + strings.Repeat("é", 101)), 1, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{"x" + strings.Repeat("é", 99) + "\uFFFD…"}}},
		{"no text", []byte("a\xffb\x00\n"), 1, &v1alpha1.ManifestFault{Line: 1, FirstLine: 1, Lines: []string{"a\uFFFDb\x00"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, FaultLines(c.data, c.line)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
