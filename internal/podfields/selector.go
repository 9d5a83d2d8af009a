// Package podfields has what depends on the fields of a pod: selectors and masks of requests, and the rows of tables.
//
//	selector, err := podfields.ParseSelector("status.phase=Running") // as the apiserver selects
//	if err != nil {
//		return err
//	}
//	matches := selector.Matches(podfields.Of(pod))
//
//	mask, err := podfields.ParseMask([]string{"spec.containers.image", "metadata.labels['app']"})
//	if err != nil {
//		return err
//	}
//	small := mask.Apply(pod)
//
//	podfields.Cells(pod, time.Now()) // web-node1, 1/1, Running, 0, 5m, ...
package podfields

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podconfigd/podconfigd/api/stream/v1alpha1"
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

// ParseSelector parses a field selector of podconfigd's own interfaces. Its error has the first
// field that is not supported, and the supported fields.
func ParseSelector(s string) (fields.Selector, error) { return ParseSelectorOf(s, allFields) }

// ParseAPISelector parses a field selector of the Kubernetes API, as ParseSelector does.
func ParseAPISelector(s string) (fields.Selector, error) { return ParseSelectorOf(s, apiFields) }

// ParseSelectorOf parses a field selector of the supported fields.
func ParseSelectorOf(s string, supported []string) (fields.Selector, error) {
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

// Of returns the fields of a pod for a selector from ParseSelector.
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

// OwnerSelector selects pods by one of their owners. The zero value selects all pods.
type OwnerSelector struct {
	// Kind is in lower case. With AnyGroup, Group is not compared.
	Kind, Group, Name string
	AnyGroup          bool
}

// ParseOwner parses KIND/NAME, as in deployment/checkout, or KIND.GROUP/NAME, as in deployment.apps/checkout. The kind may have any case.
// The kind file has a path: file//etc/kubernetes/manifests/web.yaml. The empty text selects all pods.
func ParseOwner(text string) (OwnerSelector, error) {
	if text == "" {
		return OwnerSelector{}, nil
	}
	kind, name, _ := strings.Cut(text, "/")
	kind, group, grouped := strings.Cut(strings.ToLower(kind), ".")
	path := !grouped && strings.EqualFold(kind, v1alpha1.FileKind)
	if kind == "" || name == "" || strings.Contains(name, "/") && !path || grouped && group == "" {
		return OwnerSelector{}, fmt.Errorf("%q is not an owner: expected KIND/NAME or KIND.GROUP/NAME, for example deployment/web", text)
	}
	return OwnerSelector{kind, group, name, !grouped}, nil
}

// Empty reports whether the selector selects all pods.
func (s OwnerSelector) Empty() bool { return s == OwnerSelector{} }

// Matches reports whether the selector selects a pod with these owners.
func (s OwnerSelector) Matches(owners []v1alpha1.Owner) bool {
	return s.Empty() || slices.ContainsFunc(owners, func(o v1alpha1.Owner) bool {
		group, _, grouped := strings.Cut(o.APIVersion, "/")
		if !grouped { // v1
			group = ""
		}
		return o.Name == s.Name && strings.EqualFold(o.Kind, s.Kind) && (s.AnyGroup || group == s.Group)
	})
}
