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

// A subscriber that starts reads the pods in pieces. A set with all pods that comes meanwhile makes no
// piece slower.
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
