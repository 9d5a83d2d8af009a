package journal

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/test/testutil"
)

// many returns pods of a source with the names p0 to pN.
func many(n int, source, image string) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("p%d=%s", i, image))
		pods[i].UID = types.UID(source + pods[i].Name)
	}
	return pods
}

// A set whose names another source has too takes time in proportion to its pods: when it comes, and when it goes.
func TestTwoSourcesOfTheSameNamesGrowInProportion(t *testing.T) {
	testutil.Exhaustive(t)
	growsInProportion(t, 1200, func(n int) func() {
		file, http := many(n, "file", ""), many(n, "http", "")
		j := newJournal(Options{Sources: []string{"file", "http"}})
		j.Append(config.PodUpdate{Op: config.ADD, Source: "http", Pods: http})
		return func() {
			j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: file})
			j.Append(config.PodUpdate{Op: config.REMOVE, Source: "file", Pods: file})
		}
	})
}

// The state after a set follows from the state before in proportion to its pods, also if the set has all of them.
func TestStatesGrowInProportion(t *testing.T) {
	testutil.Exhaustive(t)
	for op, sets := range map[config.PodOperation]func(n int) [][]*v1.Pod{
		config.ADD:    func(n int) [][]*v1.Pod { return [][]*v1.Pod{many(n, "file", "")} },
		config.UPDATE: func(n int) [][]*v1.Pod { return [][]*v1.Pod{many(n, "http", "1"), many(n, "http", "2")} },
		config.REMOVE: func(n int) [][]*v1.Pod { return [][]*v1.Pod{many(n, "http", "")} },
	} {
		t.Run(op.String(), func(t *testing.T) {
			growsInProportion(t, 1200, func(n int) func() {
				j := newJournal(Options{Sources: []string{"file", "http"}, MaxBytes: 1 << 40})
				start := j.Revision()
				j.Append(config.PodUpdate{Op: config.ADD, Source: "http", Pods: many(n, "http", "")})
				for _, pods := range sets(n) {
					source := "http"
					if op == config.ADD {
						source = "file"
					}
					j.Append(config.PodUpdate{Op: op, Source: source, Pods: pods})
				}
				reading, err := j.After(start, nil, 10)
				if err != nil {
					t.Fatal(err)
				}
				states := j.States()
				if _, err := states.After(reading.Sets[0]); err != nil {
					t.Fatal(err)
				}
				return func() {
					for _, set := range reading.Sets[1:] {
						if pods, err := states.After(set); err != nil || states.revision != set.Revision {
							t.Fatalf("%d pods, %v; the state did not follow", len(pods), err)
						}
					}
				}
			})
		})
	}
}

// A subscriber that starts reads the pods in pieces. A set with all pods that comes meanwhile is undone once, for
// all pieces.
func TestStartsGrowInProportion(t *testing.T) {
	testutil.Exhaustive(t)
	for _, order := range []Order{BySource, ByName, ByUID} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			growsInProportion(t, 1200, func(n int) func() {
				j := newJournal(Options{MaxBytes: 1 << 40})
				j.Append(config.PodUpdate{Op: config.ADD, Source: "file", Pods: many(n, "file", "1")})
				snapshot := j.Snapshot(order)
				j.Append(config.PodUpdate{Op: config.UPDATE, Source: "file", Pods: many(n, "file", "2")})
				return func() {
					for from := 0; from < n; from += 60 {
						pods, err := snapshot.Pods(from, from+60)
						if err != nil || pods[0].Object.Spec.Containers[0].Image != "1" {
							t.Fatal(err, pods[0])
						}
					}
				}
			})
		})
	}
}
