package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/manifest"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// Hundreds of invalid files, whose names change each time, fill neither the log nor the
// status. Check has a verdict on each.
func TestAFloodOfInvalidFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("writes very many files")
	}
	const many = 300
	dir := t.TempDir()
	flood := func(generation int) {
		for i := range many {
			path := filepath.Join(dir, fmt.Sprintf("g%d-%d", generation, i))
			if err := os.WriteFile(path, []byte("kind: Pod"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	flood(0)
	verdicts, err := Check(t.Context(), Options{Path: dir, Decoder: manifest.NewDecoder("node1")}, "", nil)
	if err != nil || len(verdicts) != many {
		t.Errorf("Check has %d verdicts, %v", len(verdicts), err)
	}

	var mu sync.Mutex
	var lines []string
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})))
	source := New(Options{Path: dir, Decoder: manifest.NewDecoder("node1")})
	sets := make(chan config.SourceSet, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = source.Run(ctx, sets) })
	for generation := 1; generation <= 3; generation++ {
		want := generation*many - 200
		for deadline := time.Now().Add(testutil.Patience); ; {
			status := source.Status().File
			if status.ManifestsOmitted[v1alpha1.ManifestRejected] == want && len(status.Manifests) == 200 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d are shown, and these are not: %v", len(status.Manifests), status.ManifestsOmitted)
			}
			<-time.After(10 * time.Millisecond)
		}
		flood(generation)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := len(lines); n < 201 || n > 220 || !strings.Contains(strings.Join(lines, "\n"), "Further verdicts on manifests are not logged") {
		t.Errorf("%d lines are logged, the last %q", n, lines[len(lines)-1])
	}
}
