package journal

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// BenchmarkTwoSourcesOfTheSameNames is the time for each pod of a set whose names another source has too. It
// must not grow with the number of pods.
func BenchmarkTwoSourcesOfTheSameNames(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pods := func(source string) (all []*v1.Pod) {
				for i := range n {
					p := pod(fmt.Sprint("p", i))
					p.UID = types.UID(source + p.Name)
					all = append(all, p)
				}
				return all
			}
			file, http := pods("file"), pods("http")
			for b.Loop() {
				j := newJournal(Options{Sources: []string{"file", "http"}})
				j.Append(config.PodUpdate{Op: config.ADD, Source: "http", Pods: http})
				j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: file})
				j.Append(config.PodUpdate{Op: config.REMOVE, Source: "file", Pods: file})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(3*n), "ns/pod")
		})
	}
}
