package lookup

import (
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
	"github.com/podconfigd/podconfigd/pkg/config"
	"github.com/podconfigd/podconfigd/pkg/journal"
)

// The owners are those of the pod, also after it ended. Without owners, no reference to them is kept.
func TestOwners(t *testing.T) {
	onNode(t, false, func(n *node) {
		controlled := func(name string) *v1.Pod {
			p := pod(name, "10.0.0.1")
			p.OwnerReferences = []metav1.OwnerReference{{Name: "other"}, {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "of-" + name, UID: "uid", Controller: new(true)}}
			return p
		}
		n.owners = func(p *journal.Pod) []v1alpha1.Owner {
			c := metav1.GetControllerOf(p.Object)
			if c == nil {
				return nil
			}
			return []v1alpha1.Owner{{Kind: c.Kind, Name: c.Name}, {Kind: p.Source, Name: p.Object.Namespace}}
		}
		expect := func(name, want string) {
			t.Helper()
			answer, err := n.Find(t.Context(), nil, &Query{PodUID: types.UID(name)})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(answer.Pods[0].Owners); got != want {
				t.Errorf("%s has the owners %s, want %s", name, got, want)
			}
		}
		for name, kept := range map[string]bool{"web": true, "none": false} {
			n.pods.ended.owners = kept
			n.deliver(config.ADD, "api", controlled(name))
			expect(name, "[{ ReplicaSet of-"+name+"  map[]} { api default  map[]}]")
			n.deliver(config.REMOVE, "api", controlled(name))
			want := "[]"
			if kept {
				want = "[{ ReplicaSet of-web  map[]} { api default  map[]}]"
			}
			expect(name, want)
		}
	})
}

// A static pod has its manifest file among its owners, also after it ended.
func TestFileOfAnEndedPod(t *testing.T) {
	onNode(t, false, func(n *node) {
		n.pods.ended.owners = true
		n.owners = func(p *journal.Pod) []v1alpha1.Owner {
			if p.File == nil {
				return nil
			}
			return []v1alpha1.Owner{{Kind: v1alpha1.FileKind, Name: p.File.Path}}
		}
		for _, op := range []config.PodOperation{config.ADD, config.REMOVE} {
			n.journal.Append(config.PodUpdate{Op: op, Source: "file", Pods: []*v1.Pod{pod("web", "10.0.0.1")}, Files: []*config.File{{Path: "/m/web.yaml"}}})
			synctest.Wait()
			answer, err := n.Find(t.Context(), nil, &Query{PodUID: "web"})
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.Pods[0].Owners; len(got) != 1 || got[0].Name != "/m/web.yaml" {
				t.Errorf("%v: got %+v", op, got)
			}
		}
	})
}
