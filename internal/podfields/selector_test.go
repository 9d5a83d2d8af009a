package podfields

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFieldSelectors(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "a", UID: "u"},
		Spec:       v1.PodSpec{NodeName: "node1", RestartPolicy: v1.RestartPolicyAlways, SchedulerName: "s", ServiceAccountName: "sa", HostNetwork: true},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}, NominatedNodeName: "node2",
		},
	}
	for _, c := range []struct {
		selector string
		want     bool
	}{
		{"", true},
		{"metadata.name=x,metadata.namespace==a,metadata.uid=u", true},
		{"metadata.name!=x", false},
		{"spec.nodeName=node1,spec.restartPolicy=Always,spec.schedulerName=s,spec.serviceAccountName=sa", true},
		{"spec.host=node1", true},
		{"spec.host=node2", false},
		{"spec.hostNetwork=true", true},
		{"spec.hostNetwork=false", false},
		{"status.phase=Running,status.podIP=10.0.0.1,status.nominatedNodeName=node2", true},
		{"status.podIP=fd00::1", false},
		// The apiserver accepts this field and has no value for it.
		{"status.podIPs=10.0.0.1", false},
		{"status.podIPs=", true},
		{"status.podIPs!=10.0.0.1", true},
	} {
		t.Run(c.selector, func(t *testing.T) {
			selector, err := ParseSelector(c.selector)
			if err != nil {
				t.Fatal(err)
			}
			if got := selector.Matches(Of(pod)); got != c.want {
				t.Errorf("%q matches: %t, want %t", c.selector, got, c.want)
			}
		})
	}
	for selector, pod := range map[string]*v1.Pod{
		"spec.hostNetwork=false": {},
		"status.podIP=":          {},
		"status.podIP=10.0.0.1":  {Status: v1.PodStatus{PodIP: "10.0.0.1"}},
		"status.podIP=10.0.0.2":  {Status: v1.PodStatus{PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}}},
		// If the two differ, the apiserver uses podIP.
		"status.podIP=10.0.0.3": {Status: v1.PodStatus{PodIP: "10.0.0.3", PodIPs: []v1.PodIP{{IP: "10.0.0.4"}}}},
	} {
		t.Run(selector, func(t *testing.T) {
			if s, err := ParseSelector(selector); err != nil || !s.Matches(Of(pod)) {
				t.Errorf("%q does not match %+v (%v)", selector, pod, err)
			}
		})
	}
	for selector, want := range map[string]string{
		"spec.foo=1":             "field label not supported: spec.foo; supported are metadata.uid, metadata.name, metadata.namespace,",
		"metadata.name=x,spec=1": "field label not supported: spec;",
		"metadata.name":          "invalid selector",
	} {
		t.Run(selector, func(t *testing.T) {
			if _, err := ParseSelector(selector); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %s", selector, err, want)
			}
		})
	}
}

// The apiserver does not support the UID.
func TestSelectorsOfTheKubernetesAPI(t *testing.T) {
	if _, err := ParseAPISelector("metadata.uid=u"); err == nil || !strings.HasPrefix(err.Error(), "field label not supported: metadata.uid; supported are metadata.name,") {
		t.Errorf("metadata.uid: %v", err)
	}
	for _, field := range apiFields {
		if _, err := ParseAPISelector(field + "=x"); err != nil {
			t.Error(err)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	selector, err := ParseSelector("spec.host=node1,spec.hostNetwork=false")
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{NodeName: "node1"}}
	if n := testing.AllocsPerRun(100, func() { selector.Matches(Of(pod)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
