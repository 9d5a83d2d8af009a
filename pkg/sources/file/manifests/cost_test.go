package manifests

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

// A change of one file reads and decodes that file, and makes as many allocations among 1,000 files as among 50.
// Only the two lists of all pods grow, in their size.
func TestAChangeDoesNotCostTheOtherFiles(t *testing.T) {
	cost := func(others int) (allocations, reads, decodes float64) {
		b := newBench(t)
		b.set = New(Options{Path: b.dir, Decoder: manifest.NewDecoder("n"), Impatient: true, Registerer: prometheus.NewRegistry()})
		for i := range others {
			b.write(fmt.Sprintf("b%d.yaml", i), pod(fmt.Sprint("b", i), "1"))
		}
		b.write("a.yaml", pod("a", "0"))
		b.lookAll()
		metrics := b.set.looker.metrics
		reads, decodes = testutil.ToFloat64(metrics.reads), testutil.ToFloat64(metrics.decodes)
		const changes = 20
		image := 0
		allocations = testing.AllocsPerRun(changes, func() { // one more than that
			image++
			b.write("a.yaml", pod("a", fmt.Sprint(image)))
			b.set.Distrust([]string{"a.yaml"})
			if !b.set.Look(t.Context(), []string{"a.yaml"}) {
				t.Fatal("nothing changed")
			}
			if pods, files := b.set.Pods(); len(pods) != others+1 || len(files) != others+1 {
				t.Fatalf("%d pods, %d files", len(pods), len(files))
			}
		})
		return allocations, (testutil.ToFloat64(metrics.reads) - reads) / (changes + 1), (testutil.ToFloat64(metrics.decodes) - decodes) / (changes + 1)
	}
	few, _, _ := cost(50)
	many, reads, decodes := cost(1000)
	if many > few+5 {
		t.Errorf("%.0f allocations among 1000 files, %.0f among 50", many, few)
	}
	if reads > 1 || decodes > 1 {
		t.Errorf("%.2f reads and %.2f decodings for each change", reads, decodes)
	}
}
