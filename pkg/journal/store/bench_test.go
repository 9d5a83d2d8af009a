package store

import (
	"strings"
	"testing"
	"time"

	"github.com/podconfigd/podconfigd/pkg/config"
)

// large returns a pod of about 4 kB.
func large(m *model, uid int) Pod {
	m.revision++
	p := m.pod(config.ApiserverSource, uid)
	p.Object.Spec.SchedulerName = strings.Repeat("x", 4000)
	return p
}

// BenchmarkAppend stores one update of a pod of 4 kB at a time, on the disk of the
// temporary directory.
func BenchmarkAppend(b *testing.B) {
	p, recovered := start(b, Options{Dir: b.TempDir(), Node: "node"})
	m := newModel(1, recovered)
	shown := make(chan Commit, 1)
	for b.Loop() {
		pod := large(m, m.random.IntN(110))
		p.log.Append(&Set{First: m.revision, Revision: m.revision, Time: time.Now(), Updates: []Update{
			{Op: config.UPDATE, Source: pod.Source, Revision: m.revision, Pods: []Pod{pod}},
		}}, func(c Commit) { shown <- c })
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
		pod := large(m, n%500)
		p.append(&Set{First: m.revision, Revision: m.revision, Time: time.Now(), Updates: []Update{
			{Op: config.UPDATE, Source: pod.Source, Revision: m.revision, Pods: []Pod{pod}},
		}})
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
