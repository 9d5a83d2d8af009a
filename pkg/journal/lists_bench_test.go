package journal

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// changed returns a journal of pods, of which one has changed in each of some sets, and the revision before these sets.
func changed(pods, sets int) (*Journal, int64) {
	j := newJournal(Options{MaxBytes: 1 << 40})
	all := many(pods, "file", "")
	j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: all})
	since := j.Revision()
	for i := range sets {
		p := all[i*7%pods].DeepCopy()
		j.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{p}})
	}
	return j, since
}

// BenchmarkAppend is the time to take an update of one pod.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{110, 5_000} {
		b.Run(fmt.Sprint("pods=", n), func(b *testing.B) {
			b.ReportAllocs()
			j, _ := changed(n, 0)
			versions := [][]*v1.Pod{many(n, "file", "1"), many(n, "file", "2")}
			i := 0
			for b.Loop() {
				j.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{versions[i/n%2][i%n]}})
				i++
			}
		})
	}
}

// BenchmarkLists is the time for lists of 5,000 pods: the present ones, and those before 1,000 sets.
func BenchmarkLists(b *testing.B) {
	j, past := changed(5_000, 1_000)
	for _, list := range []struct {
		name string
		read func() (int, error)
	}{
		{"State", func() (int, error) { return len(j.State().Pods), nil }},
		{"Named/present", func() (int, error) { pods, _, err := j.Named(0); return len(pods), err }},
		{"Named/past", func() (int, error) { pods, _, err := j.Named(past); return len(pods), err }},
		{"Named/within", func() (int, error) { pods, _, err := j.Named(past - 1); return len(pods), err }},
	} {
		b.Run(list.name, func(b *testing.B) {
			for b.Loop() {
				if n, err := list.read(); err != nil || n < 4_999 {
					b.Fatal(n, err)
				}
			}
		})
	}
	for _, order := range []Order{BySource, ByName, ByUID} {
		b.Run(fmt.Sprint("Snapshot/", order), func(b *testing.B) {
			for b.Loop() {
				j.orders[order].Store(nil) // as after another set
				if s := j.Snapshot(order); s.Len != 5_000 {
					b.Fatal(s.Len)
				}
			}
		})
	}
}
