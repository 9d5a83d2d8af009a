package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// benchManifest is a pod of three containers with ten variables each.
func benchManifest() []byte {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: {app: web}\nspec:\n  containers:\n")
	for c := range 3 {
		fmt.Fprintf(&b, "  - name: c%d\n    image: registry.example/image:%d\n    env:\n", c, c)
		for v := range 10 {
			fmt.Fprintf(&b, "    - name: VARIABLE_%d\n      value: value-%d\n", v, v)
		}
	}
	return []byte(b.String())
}

func BenchmarkDecodeFile(b *testing.B) {
	d, data := NewDecoder("node1"), benchManifest()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.DecodeFile("/etc/kubernetes/manifests/web.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}
