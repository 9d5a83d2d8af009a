package conformance

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"

	"github.com/podconfigd/podconfigd/internal/podfields"
)

// TestRowsOfOtherTables compares the rows of nodes and namespaces with the rows of the apiserver's
// own printers, for random objects.
func TestRowsOfOtherTables(t *testing.T) {
	generator := printers.NewTableGenerator().With(printersinternal.AddHandlers)
	row := func(object, internal runtime.Object) []any {
		t.Helper()
		if err := legacyscheme.Scheme.Convert(object, internal, nil); err != nil {
			t.Fatal(err)
		}
		table, err := generator.GenerateTable(internal, printers.GenerateOptions{Wide: true})
		if err != nil {
			t.Fatal(err)
		}
		return table.Rows[0].Cells
	}
	for seed := range objects() {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		node := nodeInSomeState(r)
		if diff := cmp.Diff(row(node, &api.Node{}), podfields.NodeCells(node, time.Now())); diff != "" {
			t.Fatalf("seed %d: the apiserver (-) and podconfigd (+) differ: %s\n%+v", seed, diff, node)
		}
		namespace := &v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: someTime(r)},
			Status:     v1.NamespaceStatus{Phase: pick(r, v1.NamespaceActive, v1.NamespaceTerminating, "")},
		}
		if diff := cmp.Diff(row(namespace, &api.Namespace{}), podfields.NamespaceCells(namespace, time.Now())); diff != "" {
			t.Fatalf("seed %d: the apiserver (-) and podconfigd (+) differ: %s\n%+v", seed, diff, namespace)
		}
	}
}

// nodeInSomeState returns a node in any state that a row shows.
func nodeInSomeState(r *rand.Rand) *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: someTime(r), Labels: make(map[string]string)},
		Spec:       v1.NodeSpec{Unschedulable: r.IntN(2) == 0},
		Status: v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{
			KubeletVersion: pick(r, "", "v1.36.3"), OSImage: pick(r, "", "Debian"), KernelVersion: pick(r, "", "6.1"),
			Architecture: pick(r, "", "arm64"), ContainerRuntimeVersion: pick(r, "", "containerd://2.4.0"),
		}},
	}
	for _, label := range []string{
		"node-role.kubernetes.io/", "node-role.kubernetes.io/worker", "node-role.kubernetes.io/edge", "kubernetes.io/role", "kubernetes.io/os",
	} {
		if r.IntN(2) == 0 {
			node.Labels[label] = pick(r, "", "edge", "x")
		}
	}
	for range r.IntN(3) {
		node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{
			Type: pick(r, v1.NodeReady, v1.NodeDiskPressure), Status: pick(r, v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown),
		})
	}
	for range r.IntN(4) {
		node.Status.Addresses = append(node.Status.Addresses, v1.NodeAddress{
			Type: pick(r, v1.NodeInternalIP, v1.NodeExternalIP, v1.NodeHostName), Address: pick(r, "10.0.0.1", "fd00::1", "name"),
		})
	}
	return node
}
