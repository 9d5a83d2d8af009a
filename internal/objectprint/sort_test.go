package objectprint

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// test/e2e compares the order of pods with kubectl.
func TestSort(t *testing.T) {
	for name, test := range map[string]struct {
		values []any
		want   string
	}{
		"numbers":    {[]any{int64(10), int64(9), int64(100)}, "9 10 100"},
		"fractions":  {[]any{1.5, 0.5}, "0.5 1.5"},
		"quantities": {[]any{"1Gi", "900Ki", "64Mi"}, "900Ki 64Mi 1Gi"},
		"texts":      {[]any{"b10", "b9", "a"}, "a b10 b9"},
		"null":       {[]any{"b", nil, "a"}, "<nil> a b"},
		"mixed":      {[]any{"b", int64(1)}, "sorting by .v: values of the types int64 and string have no order"},
		"booleans":   {[]any{true, false}, "sorting by .v: values of the types bool and bool have no order"},
		"none":       {nil, ""},
	} {
		objects := make([]unstructured.Unstructured, len(test.values))
		for i, value := range test.values {
			objects[i].Object = map[string]any{"v": value}
		}
		var got []string
		if err := Sort(objects, ".v"); err != nil {
			got = []string{err.Error()}
		} else {
			for _, o := range objects {
				got = append(got, fmt.Sprint(o.Object["v"]))
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestSortByAnInvalidPath(t *testing.T) {
	objects := []unstructured.Unstructured{{Object: map[string]any{"v": "x"}}}
	for path, want := range map[string]string{
		"{.v}{.w}": `sorting: path "{.v}{.w}": expected for example .metadata.name or {.metadata.name}`,
		".w":       "sorting by .w: no object has this field",
		".v[":      "sorting: unterminated array",
	} {
		if err := Sort(objects, path); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}
