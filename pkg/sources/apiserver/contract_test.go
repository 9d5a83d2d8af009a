package apiserver

import (
	"fmt"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podconfigd/podconfigd/pkg/sources"
	"github.com/podconfigd/podconfigd/pkg/sources/sourcetest"
	"github.com/podconfigd/podconfigd/test/components"
)

// place is a node's pods at a real apiserver, behind a proxy.
type place struct {
	cluster *components.Cluster
	proxy   *components.Proxy
	node    string
	conf    string
}

func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	cluster := components.Start(t)
	nodes := 0
	sourcetest.Run(t, func(t *testing.T) sourcetest.Place {
		t.Helper()
		nodes++
		p := &place{cluster: cluster, proxy: components.NewProxy(t, cluster.Address), node: fmt.Sprintf("node%d", nodes)}
		_, err := cluster.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.node}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conf := components.NewKubeconfig("https://"+p.proxy.Address, cluster.Authority.PEM)
		conf.AuthInfos["user"].Token = components.User + "-token"
		p.conf = filepath.Join(t.TempDir(), "kubeconfig")
		components.WriteKubeconfig(t, p.conf, conf)
		return p
	})
}

// Source needs nothing that was restored: the first list is the set.
func (p *place) Source(sources.Restored) sources.Source {
	return New(Options{Kubeconfig: p.conf, Node: types.NodeName(p.node)})
}

// name returns the pod's name in the apiserver, which is shared by all nodes.
func (p *place) name(name string) string { return name + "-" + p.node }

func (p *place) Put(t *testing.T, name, image string) {
	t.Helper()
	pods := p.cluster.Client.CoreV1().Pods("default")
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name(name)},
		Spec:       v1.PodSpec{NodeName: p.node, Containers: []v1.Container{{Name: "c", Image: image}}},
	}
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"c","image":%q}]}}`, image)
		_, err = pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) Remove(t *testing.T, name string) {
	t.Helper()
	err := p.cluster.Client.CoreV1().Pods("default").Delete(t.Context(), p.name(name), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) Break(*testing.T) { p.proxy.Down() }
func (p *place) Mend(*testing.T)  { p.proxy.Up() }
