package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
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
