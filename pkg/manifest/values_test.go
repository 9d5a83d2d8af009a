package manifest

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/internal/testutil"
)

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
