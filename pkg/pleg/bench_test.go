package pleg

import (
	"fmt"
	"testing"
	"time"
)

// Each waiting lookup finds its container again when it is recorded. So this must not depend on the containers of the pod: with
// 10,000 of each, housekeeping took 21 s.
func BenchmarkFindContainer(b *testing.B) {
	for _, containers := range []int{1, 10_000} {
		b.Run(fmt.Sprint(containers), func(b *testing.B) {
			g := &Generator{records: newRecords()}
			pod := &Pod{UID: "uid"}
			for n := range containers {
				pod.Containers = append(pod.Containers, Container{ID: fmt.Sprint(n), State: StateRunning})
			}
			now := time.Now()
			g.records.apply(pod.UID, pod, g.records.compare(pod.UID, pod, now), now)
			for b.Loop() {
				if _, found := g.FindContainer("0"); !found {
					b.Fatal("it is not found")
				}
			}
		})
	}
}
