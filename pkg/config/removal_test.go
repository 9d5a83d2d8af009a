package config

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// If a source loses most or all of its pods, the log has one line with the source, the
// path or URL and the number.
func TestRemovalOfMostPodsIsLogged(t *testing.T) {
	pods := func(from, to int) (set []*v1.Pod) {
		for i := from; i < to; i++ {
			set = append(set, pod(fmt.Sprint("p", i), fmt.Sprint("u", i)))
		}
		return set
	}
	const all = `"msg"="Source removed all of its pods" "source"="file" "origin"="/m" "removed"=`
	const most = `"msg"="Source removed most of its pods" "source"="file" "origin"="/m" "removed"=`
	replaced := pods(0, 3)
	for i, p := range replaced {
		p.UID = pods(10+i, 11+i)[0].UID // an edited manifest
	}
	for name, test := range map[string]struct {
		sets [][]*v1.Pod
		want []string
	}{
		"all":                  {[][]*v1.Pod{pods(0, 5), nil}, []string{all + `5`}},
		"the only one":         {[][]*v1.Pod{pods(0, 1), nil}, []string{all + `1`}},
		"most":                 {[][]*v1.Pod{pods(0, 5), pods(0, 2)}, []string{most + `3 "left"=2`}},
		"half":                 {[][]*v1.Pod{pods(0, 4), pods(0, 2)}, nil},
		"none at first":        {[][]*v1.Pod{nil, nil}, nil},
		"others":               {[][]*v1.Pod{pods(0, 3), pods(3, 6)}, nil},
		"edited ones":          {[][]*v1.Pod{pods(0, 3), replaced}, nil},
		"one after the other":  {[][]*v1.Pod{pods(0, 4), pods(1, 4), pods(2, 4)}, nil},
		"all but a new one":    {[][]*v1.Pod{pods(0, 4), pods(7, 8)}, []string{most + `3 "left"=1`}},
		"with a name in twice": {[][]*v1.Pod{pods(0, 4), slices.Concat(pods(0, 1), pods(0, 1))}, []string{most + `3 "left"=1`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), funcr.New(func(_, args string) {
					if strings.Contains(args, "of its pods") {
						lines = append(lines, strings.TrimPrefix(args, `"level"=0 `))
					}
				}, funcr.Options{})))
				c := NewPodConfig()
				ch := c.Channel("file")
				var running sync.WaitGroup
				running.Go(func() { _ = c.Run(ctx) })
				for _, set := range test.sets {
					ch <- SourceSet{Pods: set, Origin: "/m"}
				}
				synctest.Wait()
				cancel()
				running.Wait()
				if !slices.Equal(lines, test.want) {
					t.Errorf("logged %q, want %q", lines, test.want)
				}
			})
		})
	}
}
