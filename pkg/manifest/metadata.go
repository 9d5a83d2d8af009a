package manifest

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// warnOfMetadata adds a warning for each field that only a pod of the apiserver can have, and that a kubelet accepts in a manifest.
//
// kubelet: pkg/kubelet/pod_workers.go UpdatePod, pkg/kubelet/pod/mirror_client.go CreateMirrorPod.
func (d *Decoder) warnOfMetadata(t *text, pod *api.Pod, found *yamlfault.Findings) {
	for _, field := range []struct {
		set           bool
		path, message string
	}{
		{pod.DeletionTimestamp != nil, "metadata.deletionTimestamp", "the kubelet does not start a pod with it, and stops the pod if it runs: remove it"},
		{pod.DeletionGracePeriodSeconds != nil, "metadata.deletionGracePeriodSeconds", "only for a pod that is being deleted: remove it"},
		{len(pod.OwnerReferences) > 0, "metadata.ownerReferences", "ignored: the owner of the mirror pod is the node"},
		{pod.ResourceVersion != "", "metadata.resourceVersion", "the apiserver refuses a mirror pod with it: remove it"},
		{len(pod.Finalizers) > 0, "metadata.finalizers", "the mirror pod has them too, and is not deleted before somebody removes them: remove them"},
		{pod.GenerateName != "", "metadata.generateName", "ignored: the pod has a name"},
		{pod.Spec.NodeName != "" && pod.Spec.NodeName != string(d.nodeName), "spec.nodeName", "ignored: the node of a static pod is the node of the kubelet"},
	} {
		if field.set {
			found.Add(func() Fault { return t.At(field.path, "%s", field.message) })
		}
	}
}

// kindWarning returns the warning about an item of a PodList that says that it is no pod; none if it does not. The kubelet takes it as a pod.
func (t *text) kindWarning(own metav1.TypeMeta) []Fault {
	if (own.Kind == "" || own.Kind == "Pod") && (own.APIVersion == "" || own.APIVersion == "v1") {
		return nil
	}
	got := fmt.Sprintf("apiVersion %s, kind %s", own.APIVersion, own.Kind)
	return []Fault{t.At("kind", "ignored: each item of a PodList is a v1 Pod, got %s", got)}
}
