package cri_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podconfigd/podconfigd/pkg/pleg/cri"
	"github.com/podconfigd/podconfigd/test/testutil/fakecri"
)

// What a client of CRI leaves empty makes no two pods one.
func TestIncompleteIdentity(t *testing.T) {
	c := fakecri.Start(t)
	c.Change(func(s *fakecri.State) {
		without := fakecri.Sandbox("s5", "", "")
		without.Metadata = nil
		labeled := fakecri.Running("c5", "s5", "c")
		labeled.Labels = map[string]string{"io.kubernetes.pod.uid": "u5", "io.kubernetes.pod.name": "p5", "io.kubernetes.pod.namespace": "default"}
		s.Sandboxes = []*runtimeapi.PodSandboxStatus{
			fakecri.Sandbox("s1", "u1", "p1"), fakecri.Sandbox("s2", "", "p2"), fakecri.Sandbox("s3", "", "p3"), fakecri.Sandbox("s4", "", "p3"), without,
		}
		for i := range 4 {
			s.Containers = append(s.Containers, fakecri.Running(fmt.Sprint("c", i+1), fmt.Sprint("s", i+1), "c"))
		}
		s.Containers = append(s.Containers, labeled, fakecri.Running("c6", "gone", "c"))
	})
	r, err := cri.New(c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pods, err := r.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pods {
		line := fmt.Sprintf("%s %s/%s", p.UID, p.Namespace, p.Name)
		for i := range p.Containers {
			line += " " + p.Containers[i].ID
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{"s2 default/p2 s2 c2", "s3 default/p3 s3 c3", "s4 default/p3 s4 c4", "u1 default/p1 s1 c1", "u5 default/p5 c5"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
