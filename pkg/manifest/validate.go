package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podconfigd/podconfigd/internal/located"
)

// validate checks the rules of the API and the rules for static pods.
func (t *text) validate(pod *api.Pod, json []byte) error {
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	if errs := validation.ValidatePodCreate(pod, opts); len(errs) > 0 {
		var found located.Findings
		for _, err := range errs {
			found.Add(func() Fault { return t.At(err.Field, "%s", err.ErrorBody()) })
		}
		return t.refuseAll(ReasonInvalid, found)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.PreventStaticPodAPIReferences) {
		return t.validateLegacy(pod, json)
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

// validateLegacy checks the rules for static pods when the feature gate
// PreventStaticPodAPIReferences is off.
func (t *text) validateLegacy(pod *api.Pod, json []byte) error {
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
	var found located.Findings
	if json.Unmarshal(data, &value) == nil {
		located.Walk(value, podType, "", func(path string, _ reflect.Type, value any) {
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
