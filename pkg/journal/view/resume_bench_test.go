package view

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// BenchmarkResume is the time of a subscriber to resume 1,500 sets, each of one pod.
func BenchmarkResume(b *testing.B) {
	const sets = 1_500
	for _, n := range []int{110, 1_000, 5_000} {
		j := newJournal(journal.Options{MaxBytes: 1 << 40})
		all := make([]*v1.Pod, n)
		for i := range all {
			all[i] = pod(fmt.Sprintf("p%d=1", i))
			all[i].UID = types.UID(all[i].Name)
		}
		j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: all})
		since := j.Revision()
		for i := range sets {
			j.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{all[i*7%n].DeepCopy()}})
		}
		for _, mode := range []Mode{SnapshotMode, IncrementalMode} {
			b.Run(fmt.Sprintf("pods=%d/%s", n, mode), func(b *testing.B) {
				for b.Loop() {
					c := j.watch(StreamOptions{Mode: mode, Since: &since})
					for {
						changed, err := c.poll()
						if err != nil {
							b.Fatal(err)
						}
						if len(c.out) == 0 && changed != nil {
							break
						}
					}
					c.Close()
				}
			})
		}
	}
}
