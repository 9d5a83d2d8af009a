package wire_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podconfigd/podconfigd/internal/podfields"
	"github.com/podconfigd/podconfigd/pkg/access"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
	"github.com/podconfigd/podconfigd/pkg/journal/view"
	"github.com/podconfigd/podconfigd/pkg/journal/wire"
)

// benchPod has three containers with ten variables each.
func benchPod(n int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "uid", Labels: map[string]string{"n": fmt.Sprint(n)}}}
	for c := range 3 {
		container := v1.Container{Name: fmt.Sprint("c", c), Image: "registry.example.com/app:1", Args: []string{"--a", "--b"}}
		for e := range 10 {
			container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprint("VARIABLE_", e), Value: "a value of some length"})
		}
		p.Spec.Containers = append(p.Spec.Containers, container)
	}
	return p
}

// BenchmarkViews is an update of a pod that 100 subscribers get and encode, by the view that they
// have. plain is without rules.
func BenchmarkViews(b *testing.B) {
	phase, err := podfields.ParseMask([]string{"metadata.labels", "status.phase"})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		rules  []access.Rule
		fields *podfields.Mask
	}{
		{"plain", nil, nil},
		{"full", []access.Rule{{Namespaces: []string{"default"}, View: access.Full}}, nil},
		{"redacted", []access.Rule{{View: access.Redacted}}, nil},
		{"metadata", []access.Rule{{View: access.Metadata}}, nil},
		{"fields", nil, phase},
	} {
		b.Run(c.name, func(b *testing.B) {
			j := journal.New(journal.Options{Sources: []string{"file"}})
			gate := view.NewGate(j, access.NewPolicy(c.rules))
			j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: []*v1.Pod{benchPod(0)}})
			var cursors []*view.Cursor
			for range 100 {
				scope, err := gate.Scope(access.Subject{User: "agent"})
				if err != nil {
					b.Fatal(err)
				}
				cursor := scope.Stream(view.StreamOptions{Options: view.Options{Fields: c.fields}})
				b.Cleanup(cursor.Close)
				cursors = append(cursors, cursor)
			}
			var line []byte
			read := func() {
				for _, cursor := range cursors {
					frames, err := cursor.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					line = line[:0]
					for _, f := range frames {
						if line, err = wire.AppendLine(line, f); err != nil {
							b.Fatal(err)
						}
					}
					clear(frames)
				}
			}
			read()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				j.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: []*v1.Pod{benchPod(n)}})
				read()
			}
		})
	}
}
