package soak

import (
	"fmt"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/kubernetes"

	"github.com/podconfigd/podconfigd/test/components"
)

// apiserver is a kube-apiserver. The daemon's connections to it are cut at times.
type apiserver struct {
	client     clientgo.Interface
	proxy      *components.Proxy
	kubeconfig string
}

func newAPIServer(t *testing.T, dir string) *apiserver {
	t.Helper()
	c := components.Start(t)
	a := &apiserver{client: c.Client, proxy: components.NewProxy(t, c.Address), kubeconfig: filepath.Join(dir, "kubeconfig")}
	config := components.NewKubeconfig("https://"+a.proxy.Address, c.Authority.PEM)
	config.AuthInfos["user"].Token = components.User + "-token"
	components.WriteKubeconfig(t, a.kubeconfig, config)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range namespaces {
		n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return a
}

// changeAPI changes a pod of the apiserver.
func (m *mutator) changeAPI() (kind string) {
	const patched, status, graceful = 45, 65, 75
	name := m.name()
	if name[len(name)-1]%2 == 0 {
		name += "-" + nodeName // the name of a static pod
	} else {
		name = "api-" + name
	}
	p, there := m.truth[apiSource][name]
	switch n := m.random.IntN(100); {
	case n >= 95:
		m.api.proxy.Cut()
		return "cut the apiserver"
	case !there:
		m.createPod(name)
		return "create"
	case n < patched:
		m.version++
		p.version, p.tier = fmt.Sprint(m.version), tiers[m.random.IntN(len(tiers))]
		m.patch(p, fmt.Sprintf(`{"metadata":{"labels":{"version":%q,"tier":%q}}}`, p.version, p.tier))
		return "patch"
	case n < status:
		m.version++
		p.status = fmt.Sprint(m.version)
		m.patch(p, fmt.Sprintf(`{"status":{"message":%q}}`, p.status), "status")
		return "status"
	case n < graceful && p.grace == "":
		p.grace = "3600"
		m.truth[apiSource][name] = p
		m.deletePod(p, 3600)
		return "delete"
	default:
		delete(m.truth[apiSource], name)
		m.deletePod(p, 0)
		return "delete at once"
	}
}

func (m *mutator) createPod(name string) {
	m.version++
	p := manifest{
		name: name, version: fmt.Sprint(m.version), namespace: namespaces[len(name)%len(namespaces)], tier: tiers[m.random.IntN(len(tiers))],
	}
	annotations := make(map[string]string)
	if p.mirror = m.random.IntN(4) == 0; p.mirror {
		annotations[v1.MirrorPodAnnotationKey] = "x"
	}
	created, err := m.api.client.CoreV1().Pods(p.namespace).Create(m.t.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"version": p.version, "tier": p.tier}, Annotations: annotations},
		Spec: v1.PodSpec{
			NodeName: nodeName, Containers: []v1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool),
		},
	}, metav1.CreateOptions{})
	m.must(err)
	p.uid = string(created.UID)
	m.truth[apiSource][name] = p
}

func (m *mutator) patch(p manifest, patch string, subresources ...string) {
	_, err := m.api.client.CoreV1().Pods(p.namespace).Patch(m.t.Context(), p.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	m.must(err)
	m.truth[apiSource][p.name] = p
}

func (m *mutator) deletePod(p manifest, grace int64) {
	m.must(m.api.client.CoreV1().Pods(p.namespace).Delete(m.t.Context(), p.name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}
