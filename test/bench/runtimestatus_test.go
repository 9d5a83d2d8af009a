package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/test/components"
)

// BenchmarkResidentStatus measures the memory of an idle daemon with 110 static pods of three
// containers each, with the status from the runtime and without it. One container of each pod
// runs, the others are created.
func BenchmarkResidentStatus(b *testing.B) {
	const pods, megabyte = 110, 1e6
	r := components.StartRuntime(b, components.Containerd)
	dir := newDirectory(b)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sandboxes []string
	next := make(chan int)
	for range 4 {
		wg.Go(func() {
			for i := range next {
				name, uid := fmt.Sprintf("pod-%03d-%s", i, nodeName), fmt.Sprintf("uid-%03d", i)
				sandbox := r.Sandbox(b, name, uid)
				mu.Lock()
				sandboxes = append(sandboxes, sandbox)
				mu.Unlock()
				for c := range 3 {
					id := r.Create(b, sandbox, name, uid, fmt.Sprint("c", c), "pause")
					if c == 0 {
						r.StartContainer(b, id)
					}
				}
			}
		})
	}
	for i := range pods {
		text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: pod-%03d, uid: uid-%03d}\nspec: {hostNetwork: true, containers: [", i, i)
		for c := range 3 {
			text += fmt.Sprintf("{name: c%d, image: %q}, ", c, components.Image)
		}
		if err := os.WriteFile(filepath.Join(dir.path, fmt.Sprintf("pod-%03d.yaml", i)), []byte(text+"]}\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for _, status := range []string{"false", "true"} {
		b.Run("status="+status, func(b *testing.B) {
			var rss float64
			for b.Loop() {
				p := startPodconfigd(b, dir, "--container-runtime-endpoint", r.Socket, "--runtime-status="+status)
				p.settle(b, pods, true)
				for deadline := time.Now().Add(patience); status == "true" && p.known(b) < pods; pause(b, time.Second) {
					if time.Now().After(deadline) {
						b.Fatalf("%d pods have a status", p.known(b))
					}
				}
				pause(b, settling)
				rss += p.memory(b, "VmRSS") / megabyte
				p.stop()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rss/float64(b.N), "rss-MB")
		})
	}
	for _, id := range sandboxes { // one at a time takes minutes
		wg.Go(func() { r.RemoveSandbox(b, id) })
	}
	wg.Wait()
}

// known returns the number of pods whose first container has an ID in the status.
func (p *podconfigd) known(b *testing.B) (known int) {
	b.Helper()
	body := p.get(b.Context(), b, "/pods")
	defer body.Close()
	var list v1.PodList
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		if c := list.Items[i].Status.ContainerStatuses; len(c) == 3 && c[0].ContainerID != "" {
			known++
		}
	}
	return known
}
