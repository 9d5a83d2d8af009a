package manifests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil/podtest"
)

// A change of one file reads and decodes that file, and makes as many allocations among 1,000 files as among 50.
// Only the two lists of all pods grow, in their size.
func TestAChangeDoesNotCostTheOtherFiles(t *testing.T) {
	cost := func(others int) (allocations, reads, decodes float64) {
		b := newBench(t)
		b.set = New(Options{Path: b.dir, Decoder: manifest.NewDecoder("n"), Impatient: true, Registerer: prometheus.NewRegistry()})
		for i := range others {
			b.write(fmt.Sprintf("b%d.yaml", i), podtest.Manifest(fmt.Sprint("b", i), "1"))
		}
		b.write("a.yaml", podtest.Manifest("a", "0"))
		b.lookAll()
		metrics := b.set.looker.metrics
		reads, decodes = testutil.ToFloat64(metrics.reads), testutil.ToFloat64(metrics.decodes)
		const changes = 20
		image := 0
		allocations = testing.AllocsPerRun(changes, func() { // one more than that
			image++
			b.write("a.yaml", podtest.Manifest("a", fmt.Sprint(image)))
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

// finding finds another kubelet with the first pod that is decoded.
type finding struct {
	decoder *manifest.Decoder
	decoded int
}

func (f *finding) Decoded(types.NamespacedName, string, types.UID, time.Duration) types.UID {
	if f.decoded++; f.decoded == 1 {
		f.decoder.Use(36)
	}
	return ""
}

func (*finding) Identified(types.NamespacedName, types.UID, manifest.Minor) bool { return false }

// When another kubelet is found while the first files are decoded, only those before are decoded again. New
// evidence makes all be decoded again.
func TestOnlyWhatIsOutdatedIsDecodedAgain(t *testing.T) {
	b := newBench(t)
	decoder := manifest.NewDecoder("n")
	decoder.Compare(&finding{decoder: decoder})
	b.set = New(Options{Path: b.dir, Decoder: decoder, Impatient: true})
	for _, name := range []string{"a", "b", "c"} {
		b.write(name+".yaml", podtest.Manifest(name, "1"))
	}
	b.lookAll()
	for _, want := range []float64{3, 4, 4} {
		if got := testutil.ToFloat64(b.set.looker.metrics.decodes); got != want {
			t.Errorf("decoded %v times, want %v", got, want)
		}
		b.set.Outdate()
		b.set.LookAgain(t.Context())
	}
	pods, _ := b.set.Pods()
	for _, pod := range pods {
		name := strings.TrimSuffix(pod.Name, "-n")
		path := filepath.Join(b.dir, name+".yaml")
		if want, _, err := decoder.For(36).DecodeFile(path, []byte(podtest.Manifest(name, "1"))); err != nil || pod.UID != want.UID {
			t.Errorf("%s has UID %s: %v", name, pod.UID, err)
		}
	}
	decoder.Redecode()
	b.set.Outdate()
	b.set.LookAgain(t.Context())
	if got := testutil.ToFloat64(b.set.looker.metrics.decodes); got != 7 {
		t.Errorf("after new evidence, decoded %v times, want 7", got)
	}
}
