package kubelets

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podconfigd/podconfigd/pkg/manifest"
)

var (
	programs = flag.String("kubelets", "", "folder with the programs of test/conformance/kubelets, to compare with them")
	seed     = flag.Uint64("seed", recordedSeed, "seed of the random manifests of the live comparison")
	count    = flag.Int("manifests", 20000, "number of random manifests of the live comparison")
	update   = flag.Bool("update", false, "record what the programs answer")
)

// The recorded manifests.
const (
	recordedSeed  = 1
	recordedCount = 2000
)

// differences are the differences from the kubelet of a minor. Each has to occur, and is a row of
// docs/explanation/kubelet-differences.md.
var differences = []struct {
	name    string
	minor   manifest.Minor
	applies func(*Manifest) bool
}{
	{"workloadRef is a field of 1.35 only", 35, func(m *Manifest) bool { return strings.Contains(string(m.Data), `"workloadRef"`) }},
}

// comparison collects the differences from the kubelet of a minor.
type comparison struct {
	minor     manifest.Minor
	occurred  []string
	different int
}

// differs reports a manifest for which the kubelet has another result.
func (c *comparison) differs(t *testing.T, m *Manifest, theirs string) {
	t.Helper()
	for _, d := range differences {
		if d.minor == c.minor && d.applies(m) {
			c.occurred = append(c.occurred, d.name)
			return
		}
	}
	if c.different++; c.different <= 10 {
		ours := Ours(c.minor, m)
		t.Errorf("%s: %s\nkubelet %v: %s\npodconfigd:  %s (%s)", m.ID, m.Data, c.minor, theirs, ours.Show(), ours.Error)
	}
}

func (c *comparison) end(t *testing.T, accepted, all int) {
	t.Helper()
	t.Logf("kubelet %v: %d manifests, %d accepted, %d differ, %d as documented", c.minor, all, accepted, c.different, len(c.occurred))
	if accepted < all/8 || accepted > all*7/8 {
		t.Errorf("%d of %d manifests are accepted: they test too little", accepted, all)
	}
	for _, d := range differences {
		if d.minor == c.minor && !slices.Contains(c.occurred, d.name) {
			t.Errorf("the difference %q never occurs", d.name)
		}
	}
}

// TestRecorded compares with what the kubelets answered.
func TestRecorded(t *testing.T) {
	corpus := Corpus(recordedSeed, recordedCount)
	if *update {
		record(t, corpus)
	}
	recording, err := ReadRecording(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	if recording.Corpus != sumOf(corpus) {
		t.Fatal("the manifests are not those that were recorded: run make kubelets-record")
	}
	for m := manifest.Oldest; m <= manifest.Base; m++ {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			c, accepted := comparison{minor: m}, 0
			sums := recording.Sums[m.String()]
			if len(sums) != len(corpus) {
				t.Fatalf("%d results are recorded, want %d", len(sums), len(corpus))
			}
			for i := range corpus {
				ours := Ours(m, &corpus[i])
				if sums[i] != 0 {
					accepted++
				}
				if ours.Sum() != sums[i] {
					c.differs(t, &corpus[i], map[bool]string{true: "something else", false: "refused"}[sums[i] != 0])
				}
			}
			c.end(t, accepted, len(corpus))
		})
	}
}

// TestLive compares with the code of the kubelets.
func TestLive(t *testing.T) {
	if *programs == "" {
		t.Skip("compares with the code of kubelets: make conformance")
	}
	corpus := Corpus(*seed, *count)
	for m := manifest.Oldest; m <= manifest.Base; m++ {
		t.Run(m.String(), func(t *testing.T) {
			theirs, err := Kubelet(t.Context(), filepath.Join(*programs, m.String()), corpus)
			if err != nil {
				t.Fatal(err)
			}
			c, accepted := comparison{minor: m}, 0
			for i := range corpus {
				if theirs[i].Accepted() {
					accepted++
				}
				ours := Ours(m, &corpus[i])
				if shown := theirs[i].Show(); shown != ours.Show() {
					c.differs(t, &corpus[i], shown+" ("+theirs[i].Error+")")
				}
			}
			c.end(t, accepted, len(corpus))
		})
	}
}

func record(t *testing.T, corpus []Manifest) {
	t.Helper()
	recording := Recording{Corpus: sumOf(corpus), Sums: make(map[string][]uint32)}
	for m := manifest.Oldest; m <= manifest.Base; m++ {
		results, err := Kubelet(t.Context(), filepath.Join(*programs, m.String()), corpus)
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			recording.Sums[m.String()] = append(recording.Sums[m.String()], results[i].Sum())
		}
	}
	if err := recording.Write(recordingFile); err != nil {
		t.Fatal(err)
	}
}
