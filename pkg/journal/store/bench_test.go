package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// large returns an update of a pod of about 4 kB.
func large(m *model, uid int) *journal.Set {
	m.revision++
	p := m.pod(config.ApiserverSource, uid)
	p.Merged.Spec.SchedulerName = strings.Repeat("x", 4000)
	return &journal.Set{First: m.revision, Revision: m.revision, Time: time.Now(), Updates: []*journal.Update{
		{First: m.revision, Op: config.UPDATE, Source: p.Source, Revision: m.revision, Pods: []*journal.Pod{p}},
	}}
}

// BenchmarkAppend stores one update of a pod of 4 kB at a time, on the disk of the
// temporary directory.
func BenchmarkAppend(b *testing.B) {
	p, recovered := start(b, Options{Dir: b.TempDir(), Node: "node"})
	m := newModel(1, recovered)
	for n := range 110 {
		p.append(large(m, n))
	}
	shown, table := make(chan journal.Commit, 1), tableOfPods(m.revision, p.pods, nil) // any table will do
	for b.Loop() {
		set := large(m, m.random.IntN(110))
		set.After = table
		p.log.Append(set, func(c journal.Commit) { shown <- c })
		if c := <-shown; !c.Stored {
			b.Fatal(p.log.Status().Err)
		}
	}
	p.end()
}

// BenchmarkOpen restores 500 pods of 4 kB and 500 updates.
func BenchmarkOpen(b *testing.B) {
	opts := Options{Dir: b.TempDir(), Node: "node"}
	p, recovered := start(b, opts)
	m := newModel(1, recovered)
	for n := range 1000 {
		p.append(large(m, n%500))
	}
	p.end()
	for b.Loop() {
		l, again, err := Open(opts)
		if err != nil {
			b.Fatal(err)
		}
		if len(final(again)) != 500 || !again.Resumed {
			b.Fatalf("%d pods: %s", len(final(again)), again.Reason)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCreate begins a segment with pods of 4 kB. Sets wait for that.
func BenchmarkCreate(b *testing.B) {
	for _, pods := range []int{110, 5000} {
		b.Run(fmt.Sprint(pods, " pods"), func(b *testing.B) {
			p, recovered := start(b, Options{Dir: b.TempDir(), Node: "node"})
			m := newModel(1, recovered)
			set := large(m, 0)
			for n := range pods - 1 {
				next := large(m, n+1)
				set.Updates[0].Pods = append(set.Updates[0].Pods, next.Updates[0].Pods...)
				set.Updates[0].Revision, set.Revision = next.Revision, next.Revision
			}
			p.append(set)
			for b.Loop() {
				s, file, err := p.log.create(func() {})
				if err != nil {
					b.Fatal(err)
				}
				p.log.discard(s, file)
			}
			p.end()
		})
	}
}
