package journal

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/podfields"
)

func maskOf(t *testing.T, path string) *podfields.Mask {
	t.Helper()
	mask, err := podfields.ParseMask([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

// Clients choose the fields. The forms that they request are shared, but are kept only while a
// subscriber needs them, and do not take the place of what all subscribers share.
func TestFormsOfFields(t *testing.T) {
	p := NewPod("file", &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	var forms []*Pod
	for i := range 10 * maxDerived {
		forms = append(forms, p.Only(maskOf(t, fmt.Sprintf("metadata.labels['%d']", i))))
	}
	computed := 0
	for range 2 {
		_, _ = Once(p.Memo, t.Name(), func() (int, error) {
			computed++
			return 0, nil
		})
	}
	if computed != 1 {
		t.Errorf("after requests for fields, what all share is computed %d times", computed)
	}
	held := weak.Make(forms[0])
	if again := p.Only(maskOf(t, "metadata.labels['0']")); again != forms[0] {
		t.Error("the form is not shared")
	}
	clear(forms)
	runtime.GC()
	if held.Value() != nil {
		t.Error("the form is kept, although nobody needs it")
	}
	if first, again := p.Only(maskOf(t, "spec")), p.Only(maskOf(t, "spec")); first != again {
		t.Error("after forms were released, new ones are not shared")
	}
}
