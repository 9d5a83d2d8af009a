package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/client"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// replica is what a subscriber holds: the image of each pod, by source and name.
type replica struct {
	mu   sync.Mutex
	pods map[string]string
	errs []string
}

// take applies an update. An ADD is of pods that are not there, all others are of pods that are.
func (r *replica) take(u *v1alpha1.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.Reset {
		clear(r.pods)
	}
	for _, pod := range u.Pods {
		key := u.Source + " " + pod.Name
		if _, there := r.pods[key]; there == (u.Op == v1alpha1.OpAdd) {
			r.errs = append(r.errs, fmt.Sprintf("%s %s, which was there: %t", u.Op, key, there))
		}
		if r.pods[key] = pod.Spec.Containers[0].Image; u.Op == v1alpha1.OpRemove {
			delete(r.pods, key)
		}
	}
}

// written returns the pods of the manifests.
func (r *reloadable) written(sources ...string) map[string]string {
	pods := map[string]string{"file m1-n": "1"}
	for _, source := range sources {
		files, _ := filepath.Glob(filepath.Join(r.dir, source, "*.yaml"))
		for _, file := range files {
			data, _ := os.ReadFile(file)
			_, image, _ := strings.Cut(string(data), `image: "`)
			image, _, _ = strings.Cut(image, `"`)
			pods["file:"+source+" "+strings.TrimSuffix(filepath.Base(file), ".yaml")+"-n"] = image
		}
	}
	return pods
}

// Many reloads while manifests change lose no pod and leave nothing behind. goleak checks
// the goroutines.
func TestManyReloads(t *testing.T) {
	r := configured(t, "a", "b", "c")
	r.run()
	held := replica{pods: make(map[string]string)}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for u, err := range client.New(*r.config.Socket).Updates(ctx, client.Options{}) {
			if err != nil {
				return
			}
			held.take(u)
		}
	})
	all := r.named("a", "b", "c")
	var reloads sync.WaitGroup
	for i := range 4 { // several at a time
		reloads.Go(func() {
			for k := range 10 {
				r.write(fmt.Sprintf("%c/x%d.yaml", "abc"[k%3], i), fmt.Sprint(k))
				config, left := r.config, (i+k)%3
				config.FileSources = slices.Delete(slices.Clone(all), left, left+1)
				config.FileCheckFrequency = every(time.Duration(20+k) * time.Second)
				if _, err := r.Reload(ctx, &config); err != nil {
					t.Error(err)
				}
			}
		})
	}
	reloads.Wait()
	if _, err := r.Reload(ctx, &r.config); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, func() error {
		held.mu.Lock()
		defer held.mu.Unlock()
		if diff := cmp.Diff(r.written("a", "b", "c"), held.pods); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	cancel()
	group.Wait()
	if len(held.errs) > 0 {
		t.Errorf("%d errors: %v", len(held.errs), held.errs[0])
	}
	if n := strings.Count(r.get("/metrics"), "podconfigd_file_source_degraded{"); n != 4 {
		t.Errorf("the metrics have %d file sources", n)
	}
}
