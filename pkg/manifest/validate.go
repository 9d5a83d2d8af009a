package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corev1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"

	"github.com/podconfigd/podconfigd/internal/printable"
	"github.com/podconfigd/podconfigd/internal/yamlfault"
)

// validate checks the rules of the API and the rules for static pods, as the kubelet of the minor does.
// isItem is true for an item of a PodList.
func (t *text) validate(m Minor, pod *api.Pod, json []byte, isItem bool) error {
	found := m.refusals(t, pod, json)
	for _, err := range validation.ValidatePodCreate(pod, m.validationOptions()) {
		if m.ignores(err) {
			continue
		}
		found.Add(func() Fault { return t.At(err.Field, "%s", printable.Rule(err.ErrorBody())) })
	}
	if len(found.Faults()) > 0 {
		return t.refuseAll(ReasonInvalid, found)
	}
	if m <= 33 {
		return t.validateReferences133(pod, json, isItem)
	}
	_, resource, err := podutil.HasAPIObjectReference(pod)
	if err != nil {
		return t.refuse(ReasonForbidden, Fault{Message: "static pods can't refer to API objects: " + err.Error()})
	}
	if resource != "" {
		return t.forbid(json, resource)
	}
	return nil
}

// validateReferences133 checks the references to objects of the API that kubelet 1.33 refuses. It runs
// static pods with other references, and ignores the references of items of a PodList.
//
// kubelet: pkg/kubelet/config/common.go tryDecodeSinglePod.
func (t *text) validateReferences133(pod *api.Pod, json []byte, isItem bool) error {
	if isItem {
		return nil
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ClusterTrustBundle != nil {
				return t.forbid(json, "clustertrustbundles")
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return t.forbid(json, "resourceclaims")
	}
	return nil
}

// nodeCritical is the priority of the class system-node-critical.
const nodeCritical = scheduling.SystemCriticalPriority + 1000

// warnOfPriority adds a warning if the priority of a static pod is not the priority of
// system-node-critical. The kubelet takes the priority as it is. The apiserver computes the
// priority of the mirror pod from the class.
//
// kubelet: pkg/kubelet/config/common.go getStaticPodPriorityWarning.
func (t *text) warnOfPriority(pod *api.Pod, found *yamlfault.Findings) {
	class, priority := pod.Spec.PriorityClassName, pod.Spec.Priority
	switch {
	case priority == nil && class != "":
		found.Add(func() Fault {
			return t.At("spec.priorityClassName", "the kubelet ignores the class of a static pod without a priority, and its mirror pod may be refused: "+
				"add spec.priority with the value of the class")
		})
	case priority != nil && class == "":
		found.Add(func() Fault {
			return t.At("spec.priority", "without spec.priorityClassName, the mirror pod is refused if the default class has another priority")
		})
	case priority != nil && (*priority != nodeCritical || class != scheduling.SystemNodeCritical):
		found.Add(func() Fault {
			return t.At("spec.priority", "a static pod whose priority is not %d of %s can be preempted or evicted through its mirror pod, without effect",
				nodeCritical, scheduling.SystemNodeCritical)
		})
	}
}

// warnOfMirror adds a warning if the pod says that it is a mirror pod, such as one that was saved from the
// apiserver. Programs that leave out mirror pods leave this pod out, too.
//
// kubelet: pkg/kubelet/kubelet.go HandlePodAdditions, which starts no mirror pod.
func (t *text) warnOfMirror(pod *api.Pod, found *yamlfault.Findings) {
	if _, mirror := pod.Annotations[api.MirrorPodAnnotationKey]; mirror {
		found.Add(func() Fault {
			return t.At("metadata.annotations["+api.MirrorPodAnnotationKey+"]", "the kubelet does not start a pod with this annotation, which makes it a mirror pod: remove it")
		})
	}
}

// references are the fields that refer to objects of a resource, by the names of
// podutil.HasAPIObjectReference.
var references = map[string][]string{
	"serviceaccounts":        {"serviceAccountName", "serviceAccount", "serviceAccountToken"},
	"secrets":                {"imagePullSecrets", "secret", "secretRef", "secretKeyRef", "azureFile", "nodePublishSecretRef"},
	"configmaps":             {"configMap", "configMapRef", "configMapKeyRef"},
	"resourceclaims":         {"resourceClaims"},
	"csidrivers":             {"csi"},
	"endpoints":              {"glusterfs"},
	"persistentvolumeclaims": {"persistentVolumeClaim", "ephemeral"},
	"clustertrustbundles":    {"clusterTrustBundle"},
	"podcertificates":        {"podCertificate"},
}

// forbid returns the error for a pod that refers to objects of the resource.
func (t *text) forbid(data []byte, resource string) *Error {
	message := fmt.Sprintf("static pods can't refer to API objects: %s", resource)
	name, _, _ := strings.Cut(resource, " ")
	var value any
	var found yamlfault.Findings
	if json.Unmarshal(data, &value) == nil {
		yamlfault.Walk(value, podType, "", func(path string, _ reflect.Type, value any) {
			for _, field := range references[name] {
				if strings.HasSuffix(path, "."+field) && value != nil && value != "" {
					found.Add(func() Fault { return t.At(path, "%s", message) })
				}
			}
		})
	}
	if len(found.Faults()) == 0 {
		found.Add(func() Fault { return Fault{Message: message} })
	}
	return t.refuseAll(ReasonForbidden, found)
}

// defaultPodResources sets the resources of the pod that follow from the resources of its containers.
// Kubelets 1.34 to 1.36 do so. Before 1.34, the feature was off. Since 1.37, only the apiserver does
// so.
//
// kubelet: pkg/apis/core/v1/defaults.go SetDefaults_Pod.
func (m Minor) defaultPodResources(pod *api.Pod) error {
	own := pod.Spec.Resources
	if m < 34 || m > 36 || own == nil || len(own.Limits) == 0 && len(own.Requests) == 0 {
		return nil
	}
	var external v1.Pod // shares all but the structs
	if err := corev1.Convert_core_Pod_To_v1_Pod(pod, &external, nil); err != nil {
		return err
	}
	defaultHugePages(&external)
	defaultRequests(&external)
	return corev1.Convert_v1_Pod_To_core_Pod(&external, pod, nil)
}

// defaultHugePages adds the huge pages of the containers to the limits of the pod.
//
// kubelet: pkg/apis/core/v1/defaults.go defaultHugePagePodLimits.
func defaultHugePages(pod *v1.Pod) { //nolint:podwrite // the decoder made it, and no one else has it yet
	own := pod.Spec.Resources
	for name, limit := range resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{}) {
		_, requested := own.Requests[name]
		_, limited := own.Limits[name]
		if requested || limited || !resourcehelper.IsSupportedPodLevelResource(name) || !corev1helper.IsHugePageResourceName(name) {
			continue
		}
		if own.Limits == nil {
			own.Limits = v1.ResourceList{}
		}
		own.Limits[name] = limit.DeepCopy()
	}
}

// defaultRequests sets the requests of a pod that has limits: the requests of the containers, otherwise the limits.
//
// kubelet: pkg/apis/core/v1/defaults.go defaultPodRequests.
func defaultRequests(pod *v1.Pod) { //nolint:podwrite // as above
	own := pod.Spec.Resources
	if len(own.Limits) == 0 {
		return
	}
	requests := own.Requests
	if requests == nil {
		requests = v1.ResourceList{}
	}
	for name, request := range resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if _, has := requests[name]; !has && resourcehelper.IsSupportedPodLevelResource(name) && corev1helper.IsOvercommitAllowed(name) {
			requests[name] = request.DeepCopy()
		}
	}
	for name, limit := range own.Limits {
		if _, has := requests[name]; !has && resourcehelper.IsSupportedPodLevelResource(name) {
			requests[name] = limit.DeepCopy()
		}
	}
	if len(requests) > 0 {
		own.Requests = requests
	}
}

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
