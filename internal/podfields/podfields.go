// Package podfields selects pods by field, as the apiserver does.
//
//	selector, err := podfields.Parse("status.phase=Running")
//	if err != nil {
//		return err
//	}
//	matches := selector.Matches(podfields.Of(pod))
package podfields

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// apiFields are the fields that a selector supports in the Kubernetes API, and allFields
// those in podconfigd's own interfaces.
//
// apiserver: k8s.io/kubernetes/pkg/apis/core/v1 addConversionFuncs.
var (
	apiFields = []string{
		"metadata.name", "metadata.namespace", "spec.nodeName", "spec.host", "spec.restartPolicy",
		"spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
		"status.podIPs", "status.nominatedNodeName",
	}
	allFields = append([]string{"metadata.uid"}, apiFields...)
)

// Parse parses a field selector of podconfigd's own interfaces. Its error has the first
// field that is not supported, and the supported fields.
func Parse(s string) (fields.Selector, error) { return ParseOnly(s, allFields) }

// ParseAPI parses a field selector of the Kubernetes API, as Parse does.
func ParseAPI(s string) (fields.Selector, error) { return ParseOnly(s, apiFields) }

// ParseOnly parses a field selector with those fields.
func ParseOnly(s string, supported []string) (fields.Selector, error) {
	selector, err := fields.ParseSelector(s)
	if err != nil {
		return nil, err
	}
	return selector.Transform(func(field, value string) (string, string, error) {
		switch {
		case field == "spec.host" && slices.Contains(supported, field): // its name in the first versions of Kubernetes
			return "spec.nodeName", value, nil
		case slices.Contains(supported, field):
			return field, value, nil
		}
		return "", "", fmt.Errorf("field label not supported: %s; supported are %s", field, strings.Join(supported, ", "))
	})
}

// Of returns the fields of a pod for a selector from Parse.
func Of(pod *v1.Pod) fields.Fields { return podFields{pod} }

type podFields struct{ pod *v1.Pod }

// Has reports whether the pod has the field.
func (f podFields) Has(field string) bool { return slices.Contains(allFields, field) }

// Get returns the value of a field. status.podIPs is always empty, as in the apiserver.
//
// apiserver: k8s.io/kubernetes/pkg/registry/core/pod ToSelectableFields.
func (f podFields) Get(field string) string {
	switch field {
	case "metadata.name":
		return f.pod.Name
	case "metadata.namespace":
		return f.pod.Namespace
	case "metadata.uid":
		return string(f.pod.UID)
	case "spec.nodeName":
		return f.pod.Spec.NodeName
	case "spec.restartPolicy":
		return string(f.pod.Spec.RestartPolicy)
	case "spec.schedulerName":
		return f.pod.Spec.SchedulerName
	case "spec.serviceAccountName":
		return f.pod.Spec.ServiceAccountName
	case "spec.hostNetwork":
		return strconv.FormatBool(f.pod.Spec.HostNetwork)
	case "status.phase":
		return string(f.pod.Status.Phase)
	case "status.podIP":
		return podIP(&f.pod.Status)
	case "status.nominatedNodeName":
		return f.pod.Status.NominatedNodeName
	}
	return ""
}

// podIP returns the first of the pod's addresses.
//
// apiserver: k8s.io/kubernetes/pkg/apis/core/v1 Convert_v1_PodStatus_To_core_PodStatus.
func podIP(status *v1.PodStatus) string {
	if status.PodIP == "" && len(status.PodIPs) > 0 {
		return status.PodIPs[0].IP
	}
	return status.PodIP
}
