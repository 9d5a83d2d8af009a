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

// BenchmarkStates is the time for each set of a subscriber in a snapshot mode, with 1,000 pods.
func BenchmarkStates(b *testing.B) {
	const pods, sets = 1_000, 20
	for _, changed := range []int{1, pods} {
		b.Run(fmt.Sprint("changed=", changed), func(b *testing.B) {
			j := newJournal(Options{MaxBytes: 1 << 40})
			start := j.Revision()
			j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: many(pods, "file", "")})
			for i := range sets {
				from := i * 7 % (pods - changed + 1)
				j.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: many(pods, "file", fmt.Sprint(i))[from : from+changed]})
			}
			reading, err := j.After(start, nil, 1+sets)
			if err != nil {
				b.Fatal(err)
			}
			first := j.States()
			if _, err := first.After(reading.Sets[0]); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				states := *first
				for _, set := range reading.Sets[1:] {
					if after, err := states.After(set); err != nil || len(after) != pods || states.revision != set.Revision {
						b.Fatal(len(after), err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/sets, "ns/set")
		})
	}
}
